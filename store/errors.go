package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-leadership/leadership/internal/redact"
)

// The conditions on which a caller decides. Match them with errors.Is; the errors themselves say more.
var (
	// ErrLost says that a ballot can never lead (again): its session ended, it was withdrawn, or another client removed
	// it.
	ErrLost = errors.New("ballot lost")
	// ErrNotFirst refuses an acknowledgement by a ballot that is not known to be first in line.
	ErrNotFirst = errors.New("ballot is not first in line")
	// ErrRequested says that an operator has asked the owner of a ballot to resign.
	ErrRequested = errors.New("an operator has asked for the resignation")
	// ErrClosed says that the store has been closed: a permanent error.
	ErrClosed = errors.New("store is closed")
	// ErrInvalid refuses a name, a value, a URL or an option: a permanent error. The store refuses before anything is sent,
	// unless only the service knows that a setting is wrong.
	ErrInvalid = errors.New("invalid")
	// ErrDenied says that the service itself refused the credentials or the operation. A store returns it at once, so
	// that its caller can report it. It might pass: a service also denies while it can't read its own permissions.
	ErrDenied = errors.New("permission denied")
	// ErrUnavailable says that the service could not be reached, and the request was not carried out.
	ErrUnavailable = errors.New("service unavailable")
	// ErrUnknownOutcome says that a request was sent and its answer did not come: the request might have been carried
	// out.
	ErrUnknownOutcome = errors.New("outcome unknown")
)

// Permanent reports whether err is permanent: trying again does not help.
func Permanent(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid)
}

// Refused reports whether err refuses a request: it is permanent, or a denial. A store does not send such a request
// again by itself.
func Refused(err error) bool { return Permanent(err) || errors.Is(err, ErrDenied) }

// Error says which operation failed, in which election on which store, and why.
type Error struct {
	Op       string // what was tried: "cast", "acknowledge", ...
	Store    string // the store, as its URL without credentials
	Election string // empty if no single election is concerned
	Err      error  // why
}

// Error returns one line of text.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Election != "" {
		fmt.Fprintf(&b, " in election %q", e.Election)
	}
	fmt.Fprintf(&b, " on %s: %v", e.Store, e.Err)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FieldError names the setting, name or value that was refused. It matches [ErrInvalid].
type FieldError struct {
	Field  string // "election", "value", "ttl", ...
	Value  string // what was given, shortened; never a secret
	Reason string // why it can't be used, with the limit that it breaks
}

// Error returns one line of text.
func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("invalid %s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("invalid %s %q: %s", e.Field, e.Value, e.Reason)
}

// Unwrap returns [ErrInvalid].
func (e *FieldError) Unwrap() error { return ErrInvalid }

// invalid returns a FieldError whose value is shortened to what a log line can hold.
func invalid(field, value, format string, args ...any) error {
	return &FieldError{Field: field, Value: redact.Shorten(value), Reason: fmt.Sprintf(format, args...)}
}

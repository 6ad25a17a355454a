package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Errors of a driver besides those of package store. [store.ErrUnknownOutcome] says that a request might have been carried
// out, or might be later. [store.ErrUnavailable] says that it was not carried out and will not be. The engine sends a
// request again after either of these two. Other errors are final. A method whose context ends before the answer comes
// returns soon, with one of the two.
//
// Either of the two means that the service does not answer, unless [Answered] marks the error. The engine then lets some
// four requests a second through until one is answered, and logs the outage with the error's text. A driver does not log
// it, and leaves nothing behind that goes on asking.
var (
	// ErrGone says that the entry was made, and has gone or is of no use. Enter, Ahead and Acknowledge return it.
	ErrGone = errors.New("the entry does not stand")
	// ErrOver says that the service has ended the session with all its entries. Any method of a Session returns it.
	ErrOver = errors.New("the session has ended")
)

// failFast is an error that waiting does not cure soon.
type failFast struct{ error }

// Unwrap returns the error.
func (f failFast) Unwrap() error { return f.error }

// after returns the error of an attempt. An earlier attempt whose outcome is unknown might have been carried out, even if
// this one was not, so the error says that.
func after(earlier, err error) error {
	if err == nil || !errors.Is(earlier, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

// FailFast marks an error of Open that matches ErrUnavailable or ErrUnknownOutcome: callers that wait for a session get
// it at once, since waiting will not help soon. Their next call tries again.
func FailFast(err error) error { return failFast{err} }

// answered is an error that is an answer.
type answered struct{ error }

// Unwrap returns the error.
func (a answered) Unwrap() error { return a.error }

// Answered marks an error that matches ErrUnavailable or ErrUnknownOutcome and is an answer of a service that works:
// the request is worth sending again, but there is no outage. Examples are a write that another one has overtaken, a
// session that can't be opened before the last one has ended, and a limit on the rate of requests. Without the mark
// such an error means an outage: the service did not answer, or answered that it can't work, as a server without a
// leader does. nil stays nil.
func Answered(err error) error {
	if err == nil {
		return nil
	}
	return answered{err}
}

// isAnswer reports whether what a request has returned proves that the service works.
func isAnswer(err error) bool {
	a := answered{}
	return err == nil || errors.Is(err, store.ErrDenied) || errors.As(err, &a)
}

// denials measures how long something has been denied. A denial that comes of an outage, or of a cache, passes.
type denials struct{ since time.Time }

// bears reports whether an error is a denial that has not lasted for the limit.
func (d *denials) bears(err error, limit time.Duration) bool {
	switch {
	case !errors.Is(err, store.ErrDenied):
		d.since = time.Time{}
		return false
	case d.since.IsZero():
		d.since = time.Now()
	}
	return time.Since(d.since) < limit
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// What some drivers need and others do without.

// failFast is an error that waiting does not cure soon.
type failFast struct{ error }

// Unwrap returns the error.
func (f failFast) Unwrap() error { return f.error }

// retriable reports whether it helps to send a request again soon.
func retriable(err error) bool {
	f := failFast{}
	return adapter.Uncertain(err) && !errors.As(err, &f)
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

// Handover is a Session that another process can end. Handover returns what that takes, besides the ID: see
// internal/lifeline.
type Handover interface {
	Handover() []byte
}

// handOver tells the lifeline of a session, before anything is cast in it.
func (s *session) handOver() {
	if d, ok := s.driver.(Handover); ok && s.engine.settings.Lifeline != nil {
		s.engine.settings.Lifeline.Add(s.id, d.Handover())
	}
}

// handBack tells the lifeline that the session is over, whatever is known of its end: the service ends it by itself.
func (s *session) handBack() {
	if s.engine.settings.Lifeline != nil {
		s.engine.settings.Lifeline.Drop(s.id)
	}
}

// ProcessBound is a Session that ends as soon as its process is gone: see Ballot.SessionFile in package store.
type ProcessBound interface {
	SessionFile() (*os.File, error)
}

// SessionFile implements store.Ballot.
func (b *ballot) SessionFile() (*os.File, error) {
	s, ok := b.session.driver.(ProcessBound)
	line := b.engine.settings.Lifeline
	switch {
	case ok:
	case line == nil:
		return nil, nil
	case b.Err() != nil:
		return nil, b.Err()
	default:
		return line.File()
	}
	file, err := s.SessionFile()
	if errors.Is(err, ErrOver) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return file, err
}

// RaiseTokens returns what an operator does if the service was set back, so that this ballot's token is lower than an
// earlier one. It is empty if the store names nothing.
func (b *ballot) RaiseTokens() string { return b.engine.settings.RaiseTokens }

// Conditioner is a Session of a service with transactions. Condition returns the condition that the entry stands, in
// the type of the service's client, for transactions of programs: the service carries such a transaction out only while
// the entry stands. It sends nothing.
type Conditioner interface {
	Condition(e Entry) any
}

// Condition returns the condition that the ballot stands, and nil if the driver has none. It refuses with
// store.ErrNotFirst if Wait has not returned nil: a ballot that waits stands too, while another candidate leads.
func (b *ballot) Condition() (any, error) {
	s, ok := b.session.driver.(Conditioner)
	if !ok {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waited {
		return nil, b.engine.life.Fail("fence", b.entry.Election, store.ErrNotFirst)
	}
	return s.Condition(b.entry), nil
}

// Lister is a Driver that lists elections. Elections returns the names of all elections that have entries, in any
// order. It may return an election without entries too, a name twice, and a name that is no election's: the engine
// leaves those out that store.CheckElection refuses.
type Lister interface {
	Elections(ctx context.Context) ([]string, error)
}

// Elections implements store.Store, if the driver is a Lister.
func (e *Engine) Elections(ctx context.Context) (names []string, err error) {
	d, ok := e.driver.(Lister)
	if !ok {
		return nil, e.life.Fail("list the elections", "", errors.ErrUnsupported)
	}
	err = e.repeat(ctx, func(ctx context.Context) error {
		return e.gate.send(ctx, plain, func() (err error) {
			names, err = d.Elections(ctx)
			return err
		})
	})
	if err != nil {
		return nil, e.life.Fail("list the elections", "", err)
	}
	e.worked.Store(true)
	names = slices.DeleteFunc(names, func(name string) bool { return store.CheckElection(name) != nil })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// denials tells how long something has been denied: a denial might come of an outage, or of a cache, and pass.
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

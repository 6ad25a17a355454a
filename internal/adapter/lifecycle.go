// Package adapter is what the stores have in common: their settings, the lifecycle of a store with its goroutines,
// a user's call, requests that are sent again, and the texts of errors.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Lifecycle is that of a store, from its opening to the end of Close. It owns the store's goroutines.
type Lifecycle struct {
	Name string // of the store in errors and logs: its URL without credentials

	Calls      context.Context // of the user's calls: ends when Close is called, with store.ErrClosed as its cause
	Background context.Context // of the store's own work: ends when Close has cleaned up

	close   context.CancelCauseFunc
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	mu      sync.Mutex
	stopped bool // guarded by mu: no task starts once it is set
}

// NewLifecycle begins the lifecycle of a store. Its name is made of the scheme, with "+tls" if it speaks TLS, and of what
// comes behind "://".
func NewLifecycle(scheme string, tls bool, rest string) *Lifecycle {
	if tls {
		scheme += "+tls"
	}
	l := &Lifecycle{Name: scheme + "://" + rest}
	l.Background, l.stop = context.WithCancel(context.Background())
	l.Calls, l.close = context.WithCancelCause(l.Background)
	return l
}

// Close ends the user's calls: the store is being closed.
func (l *Lifecycle) Close() { l.close(store.ErrClosed) }

// Stop ends the store's own work. No task starts from then on.
func (l *Lifecycle) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.stop()
}

// Wait waits for all tasks.
func (l *Lifecycle) Wait() { l.tasks.Wait() }

// Go runs a task that Wait waits for. It reports false if the store has been stopped.
func (l *Lifecycle) Go(task func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.tasks.Go(task)
	return true
}

// Warn logs a line with the name of the store. The logger is that of [Settings].
func (l *Lifecycle) Warn(logger *slog.Logger, what string, args ...any) {
	logger.Warn(what, append([]any{"store", l.Name}, args...)...)
}

// Call begins a user's call: the context it returns ends with the caller's and when the store is closed. The caller
// calls done at the end.
func (l *Lifecycle) Call(ctx context.Context) (call context.Context, done func(), err error) {
	if l.Calls.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	call, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.Calls, func() { cancel(store.ErrClosed) })
	return call, func() { stop(); cancel(nil) }, nil
}

// Fail says which call has failed, in which election, if the error does not say that already.
func (l *Lifecycle) Fail(op, election string, err error) error {
	var already *store.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &store.Error{Op: op, Store: l.Name, Election: election, Err: err}
}

// Ended is the error of a call that ctx has ended: why ctx has ended, err of the last attempt, and last of the attempt
// before, which says more if the last attempt was just cut short. Either error may be nil.
func Ended(ctx context.Context, err, last error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		err = cause
	case !errors.Is(err, cause):
		return fmt.Errorf("%w: %w", cause, err)
	}
	if last != nil && !errors.Is(last, cause) && !strings.Contains(err.Error(), Reason(last)) {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// Reason returns the text of an error without the kind that it begins with.
func Reason(err error) string {
	text := err.Error()
	for _, kind := range []error{store.ErrUnknownOutcome, store.ErrUnavailable} {
		text = strings.TrimPrefix(text, kind.Error()+": ")
	}
	return text
}

// Uncertain reports whether a request is worth sending again: it was not carried out, or may not have been.
func Uncertain(err error) bool {
	return errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable)
}

// NotCast is the error of a campaign that got no session. No ballot was cast, even if the request for the session may
// have been carried out.
func NotCast(err error) error {
	if errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// Pause waits a little before a request is sent again, or until ctx ends.
func Pause(ctx context.Context) { PauseFor(ctx, 50*time.Millisecond) }

// PauseFor waits for d, or until ctx ends.
func PauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// HintTLS adds to an error which scheme to write. The error looks like one side speaks TLS and the other does not.
func HintTLS(err error, scheme string, tls bool) error {
	if tls {
		return fmt.Errorf("%w; does the server speak TLS? if not, the scheme has to be %s", err, scheme)
	}
	return fmt.Errorf("%w; does the server speak TLS? then the scheme has to be %s+tls", err, scheme)
}

package leadership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Term is one candidate's time as leader. It is over when the ballot is lost, when its lease runs out, or when the
// candidate resigns or is stopped. Its methods may be called from any number of goroutines.
type Term struct {
	candidate *Candidate
	ballot    store.Ballot
	lease     *store.Lease
	span      store.Span // of the lease: a lease that lapsed and was renewed later does not revive the term

	ctx          context.Context // ends with the term, with its cause
	cancel       context.CancelCauseFunc
	acknowledged atomic.Bool
	watched      chan struct{} // closed when watch has returned
	observed     chan struct{} // closed when observe has returned
	finished     chan struct{} // closed when everyone has been told that the term is over
	releasing    atomic.Bool   // release has been called
	withdrawn    atomic.Bool   // the ballot is known to be gone
	released     chan struct{} // closed by the first release, when the ballot has been given back
}

// Token is the term's fencing token: higher than that of every earlier term of the election. Give it to every
// resource the leader writes to, and let the resource refuse tokens lower than the highest it has seen.
func (t *Term) Token() uint64 { return t.ballot.Token() }

// Context ends with the term. Its cause says why: it matches ErrLost, ErrResigned or ErrStopped; ErrClosed too, besides
// ErrLost, where the store was closed.
func (t *Term) Context() context.Context { return t.ctx }

// Deadline is when the term ends unless the session is renewed before; renewals move it. It is zero when the term is
// over. It is the local clock's time, to be compared with nothing from another machine.
func (t *Term) Deadline() time.Time {
	deadline := t.lease.Last().Deadline // before current: read later, it could be that of a span which began since
	if !t.current() {
		return time.Time{}
	}
	return deadline
}

// Remaining is the time until the deadline, zero when the term is over.
func (t *Term) Remaining() time.Duration {
	remaining := t.lease.Remaining() // before current, as in Deadline
	if !t.current() {
		return 0
	}
	return remaining
}

// Acknowledge tells the followers that this candidate leads. Call it when the work of taking over is done. The store
// carries it out only while the term's ballot stands, so that a leader who has lost without knowing can't. Nobody
// else waits for it. It blocks until the store has confirmed it, trying again by itself where the outcome of a
// request is unknown, and returns early when ctx or the term ends. A second call does nothing.
func (t *Term) Acknowledge(ctx context.Context) error {
	c := t.candidate
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(t.endedError()) })()
	b := backoff{first: errorBackoff}
	for {
		if !t.current() {
			return t.endedError()
		}
		if t.acknowledged.Load() {
			return nil
		}
		leader, err := t.ballot.Acknowledge(ctx, c.value)
		if err == nil {
			if t.acknowledged.CompareAndSwap(false, true) {
				c.log.Info("acknowledged", "token", t.Token(), "revision", leader.Revision)
				c.inside.Do(func() { c.opts.Hooks.acknowledged(c.election, t.Token(), leader) })
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrLost) {
			t.finish(err) // learnt here first, unless the term is over already
			return t.endedError()
		}
		if !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		c.retry(ctx, err, b.delay())
	}
}

func (t *Term) endedError() error {
	if t.candidate.term.Load() != t {
		<-t.ctx.Done() // finish is about to say why
	}
	cause := cmp.Or(context.Cause(t.ctx), t.ballot.Err(), ErrLost) // the lease has run out this moment where there is none
	return fmt.Errorf("%w: the term in election %q is over: %w", ErrNotElected, t.candidate.election, cause)
}

// Resign ends the term, if it is not over yet, and gives the ballot back: call it, once the leader's work has
// stopped, for every term that Campaign returned. It blocks until the store has confirmed that the ballot is gone,
// or until ctx ends; then it returns an error, and the store goes on in the background as long as the session lives.
// In a function given to Run, or a callback, it only ends the term: the ballot is given back when they return.
func (t *Term) Resign(ctx context.Context) error {
	c := t.candidate
	held, running := c.holds(t)
	switch {
	case held && c.inside.Has():
		t.finish(ErrResigned)
		if !running {
			c.releaseSoon(t)
		}
		return nil
	case held && running:
		t.finish(ErrResigned)
		select {
		case <-t.released:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return t.release(ctx)
}

// current reports whether the term goes on at this very call.
func (t *Term) current() bool {
	return t.candidate.term.Load() == t && t.lease.Holds(t.span)
}

// watch ends the term when its lease runs out or its ballot is lost. It needs no event from the store for that, and
// waits for nobody: no function of the user's runs here before the term's context has ended.
func (t *Term) watch() {
	defer close(t.watched)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		last := t.lease.Last() // before Holds, so that no change is missed
		if !t.lease.Holds(t.span) {
			err := t.ballot.Err() // known by now where the store was closed
			if err == nil {
				err = fmt.Errorf("%w: the session was not renewed before its deadline", ErrLost)
			}
			t.finish(err)
			return
		}
		timer.Reset(t.lease.Remaining())
		select {
		case <-last.Changed:
		case <-timer.C:
		case <-t.ballot.Lost():
			t.finish(t.ballot.Err())
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// observe tells of renewals, and of those that are missing.
func (t *Term) observe() {
	defer close(t.observed)
	c := t.candidate
	timer := time.NewTimer(0)
	defer timer.Stop()
	told := t.lease.Last() // the renewal that was told of
	warned := false
	for {
		last, remaining := t.lease.Last(), t.lease.Remaining()
		switch {
		case !last.Confirmed.Equal(told.Confirmed):
			told, warned = last, false
			c.inside.Do(func() { c.opts.Hooks.renewed(c.election, t.Token(), last.Confirmed.Sub(last.Sent)) })
		case !warned && remaining < last.Deadline.Sub(last.Sent)/3:
			warned = true
			c.log.Warn("in jeopardy", "token", t.Token(), "remaining", remaining)
			c.inside.Do(func() { c.opts.Hooks.inJeopardy(c.election, t.Token(), remaining) })
		}
		timer.Reset(max(remaining/4, 10*time.Millisecond))
		select {
		case <-last.Changed:
		case <-timer.C:
		case <-t.ctx.Done():
			return
		}
	}
}

// finish ends the term: from here on IsLeader is false. The ballot stands until release, so that nobody else leads
// while the leader's work still winds down.
func (t *Term) finish(cause error) {
	c := t.candidate
	if !c.term.CompareAndSwap(t, nil) {
		return
	}
	defer close(t.finished)
	t.cancel(cause)
	c.events.lost()
	c.log.Info("leadership ended", "token", t.Token(), "cause", cause)
	c.inside.Do(func() { c.opts.Hooks.lost(c.election, t.Token(), cause) })
}

// release ends the term and gives the ballot back. Later calls wait for the first, and see to it that it is gone.
func (t *Term) release(ctx context.Context) error {
	if !t.releasing.CompareAndSwap(false, true) {
		select {
		case <-t.released:
			return t.withdraw(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := t.giveBack(ctx)
	t.candidate.leave()
	close(t.released)
	return err
}

// giveBack ends the term, and withdraws the ballot when nothing of the term's is running any more.
func (t *Term) giveBack(ctx context.Context) error {
	t.finish(ErrResigned)
	<-t.finished
	<-t.watched
	<-t.observed
	return t.withdraw(ctx)
}

func (t *Term) withdraw(ctx context.Context) error {
	if t.withdrawn.Load() {
		return nil
	}
	err := t.ballot.Withdraw(ctx)
	if errors.Is(err, ErrClosed) {
		err = nil // Close has ended the session, as far as it could be reached
	}
	if err == nil {
		t.withdrawn.Store(true)
	}
	return err
}

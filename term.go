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
	drive     *drive
	ballot    store.Ballot
	lease     *store.Lease
	span      store.Span // of the lease: a lease that lapsed and was renewed later does not revive the term

	ctx          context.Context // ends with the term, with its cause
	cancel       context.CancelCauseFunc
	acknowledged atomic.Bool
	withdrawn    atomic.Bool     // the ballot is known to be gone
	began        chan struct{}   // closed when the hook that reports the beginning has returned
	finished     chan struct{}   // closed by finish, when the term's context and the channel of RunForElection say so too
	observed     <-chan struct{} // closed when observe has returned, and with it the last hook
}

// Token is the term's fencing token: higher than that of every earlier term of the election. Give it to every
// resource the leader writes to, and let the resource refuse tokens lower than the highest it has seen.
func (t *Term) Token() uint64 { return t.ballot.Token() }

// Context ends with the term. Its cause says why: it matches ErrLost, ErrResigned or ErrStopped. If the store was
// closed, it matches ErrLost and ErrClosed.
func (t *Term) Context() context.Context { return t.ctx }

// Deadline is when the term ends unless the session is renewed before; renewals move it. It is zero when the term is
// over. It is a time of the local clock: do not compare it with another machine's.
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

// Acknowledge tells the followers that this candidate leads. Call it when the work of taking over is done: followers
// send their requests to the leader from then on. Until it is called they know of no leader. A term that ends without
// it calls the takeover-failed callbacks. A term that goes on for a TTL without it is logged as a warning, once per
// candidate. If no follower, new-leader callback or other program reads who leads, call it at once.
//
// The store writes the acknowledgement only while the term's ballot stands, so a leader whose term is over can't
// acknowledge. No other candidate waits for it. Acknowledge blocks until the store has confirmed it, trying again by
// itself if the outcome of a request is unknown, and returns early when ctx or the term ends. A second call does
// nothing.
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
				c.opts.Hooks.acknowledged(c.election, t.Token(), leader)
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
	cause := cmp.Or(context.Cause(t.ctx), t.ballot.Err(), ErrLost) // ErrLost if the lease has just run out
	return fmt.Errorf("%w: the term in election %q is over: %w", ErrNotElected, t.candidate.election, cause)
}

// Resign ends the term, if it is not over yet. Call it, once the leader's work has stopped, for every term that
// Campaign returned: it gives the ballot back, and the candidate may campaign again when it has returned. It blocks
// until the store has confirmed that the ballot is gone, or until ctx ends; then it returns an error, and the store
// goes on in the background as long as the session lives. It waits for no callback or hook.
//
// A term of Run or RunForElection only ends, and Resign returns at once: they give the ballot back when the leader's
// function and the callbacks have returned.
func (t *Term) Resign(ctx context.Context) error {
	t.finish(ErrResigned)
	if t.drive.serves || t.withdrawn.Load() {
		return nil
	}
	defer t.drive.exit()
	err := t.ballot.Withdraw(ctx)
	if errors.Is(err, ErrClosed) {
		err = nil // Close has ended the session, as far as it could be reached
	}
	if err == nil {
		t.withdrawn.Store(true)
	}
	return err
}

// current reports whether the term goes on at this very call.
func (t *Term) current() bool {
	return t.candidate.term.Load() == t && t.lease.Holds(t.span)
}

// watch ends the term when its lease runs out, its ballot is lost, or what drives the candidate ends. It needs no event
// from the store for that, and no function of the user's runs here.
func (t *Term) watch(driven context.Context) {
	asked := requested(t.ballot)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		last := t.lease.Last() // before Holds, so that no change is missed
		if !t.lease.Holds(t.span) {
			err := t.ballot.Err() // known by now if the store was closed
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
		case <-driven.Done():
			t.finish(stoppedBecause(context.Cause(driven)))
			return
		case <-asked:
			t.finish(errRequested)
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// errRequested ends a term that an operator has asked to end.
var errRequested = fmt.Errorf("%w: an operator has asked for it", ErrResigned)

// requested returns the channel that is closed when an operator has asked the owner of a ballot to resign; nil if its
// store can't tell.
func requested(b store.Ballot) <-chan struct{} {
	if r, ok := b.(store.Resigning); ok {
		return r.ResignationRequested()
	}
	return nil
}

// stoppedBecause is why a term ends with the context of Run.
func stoppedBecause(cause error) error {
	if errors.Is(cause, ErrStopped) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrStopped, cause)
}

// finish ends the term: from here on IsLeader is false. The ballot stands until it is given back, so that no other
// candidate leads while the leader's work still winds down. It waits for no function of the user's.
func (t *Term) finish(cause error) {
	c := t.candidate
	if !c.term.CompareAndSwap(t, nil) {
		<-t.finished // another call is about to close it
		return
	}
	t.cancel(cause)
	c.events.termEnded()
	close(t.finished)
	c.log.Info("leadership ended", "token", t.Token(), "cause", cause)
}

package leadership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store"
)

// Term is one candidate's time as leader.
type Term struct {
	c      *Candidate
	drive  *drive
	ballot store.Ballot
	fit    context.Context // ends when the candidate becomes unfit
	lease  *store.Lease
	span   store.Span // of the lease: a lease that lapsed and was renewed later does not revive the term

	ending       sync.Once // by the first call of finish
	ctx          context.Context
	cancel       context.CancelCauseFunc
	watched      chan struct{} // closed when watch has returned
	began        time.Time
	acknowledged atomic.Pointer[acknowledgement] // nil before
	ended        atomic.Pointer[time.Time]       // nil before, and set before ctx ends
	gone         atomic.Bool                     // the ballot is known to be
	endNotified  bool                            // guarded by mu of the candidate
}

type acknowledgement struct {
	at       time.Time
	revision uint64
}

// newTerm returns a term that goes on. Nothing watches it before begin.
func newTerm(c *Candidate, d *drive, fit context.Context, ballot store.Ballot, span store.Span) *Term {
	t := &Term{c: c, drive: d, fit: fit, ballot: ballot, lease: ballot.Lease(), span: span, began: time.Now(), watched: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(d.ctx))
	return t
}

// Election returns the name of the term's election.
func (t *Term) Election() string { return t.c.election }

// Token returns the term's fencing token, higher than that of every earlier term of the election.
func (t *Term) Token() uint64 { return t.ballot.Token() }

// Context returns a context that ends with the term. Its cause matches ErrLost, ErrResigned, ErrFailed or ErrStopped.
func (t *Term) Context() context.Context { return t.ctx }

// Bind returns a copy of ctx that also ends with the term, and its cause: for a request that the leader serves.
func (t *Term) Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	bound, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { end(context.Cause(t.ctx)) })
	return bound, func() { stop(); end(nil) }
}

// Remaining returns the time until the term ends if the session is not renewed, and zero if it is over.
func (t *Term) Remaining() time.Duration {
	remaining := t.lease.Remaining() // before current: read later, it could be that of a span which began since
	if !t.current() {
		return 0
	}
	return remaining
}

// Acknowledge tells the followers that this candidate leads. Call it when the work of taking over is done. A leader of the
// past can't acknowledge: the store writes it only while the ballot stands.
//
// Acknowledge blocks until the store has confirmed it, or until ctx or the term ends; if the outcome of a request is unknown,
// it tries again. An error matches store.ErrUnknownOutcome if followers might have been told. A second call does nothing. If a
// term lasts for a TTL without it, the log has a warning, once per candidate.
func (t *Term) Acknowledge(ctx context.Context) (err error) {
	if !t.c.tasks.begin() { // Done is closed, so the term is over: nothing is told any more
		return t.endedError()
	}
	defer t.c.tasks.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(t.endedError()) })()
	told := false // followers might have been
	defer func() {
		if err != nil && told {
			err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
		}
	}()
	var pause backoff
	for {
		switch { // nothing is sent
		case !t.current():
			return t.endedError()
		case t.Acknowledged():
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		leader, err := t.ballot.Acknowledge(ctx, t.c.value)
		if err == nil {
			if t.acknowledged.CompareAndSwap(nil, &acknowledgement{time.Now(), leader.Revision}) {
				t.notify(Event{Kind: Acknowledged, Leader: leader})
			}
			return nil
		}
		told = told || errors.Is(err, store.ErrUnknownOutcome) || ctx.Err() != nil && !errors.Is(err, store.ErrUnavailable)
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
		t.c.failed(err)
		t.c.retry(ctx, err, pause.next(shortestAfterError))
	}
}

func (t *Term) endedError() error {
	if t.ended.Load() != nil {
		<-t.ctx.Done() // finish is about to say why
	}
	cause := cmp.Or(context.Cause(t.ctx), t.ballot.Err(), ErrLost) // ErrLost if the lease has just run out
	return fmt.Errorf("%w: the term in election %q is over: %w", ErrNotElected, t.c.election, cause)
}

// Acknowledged reports whether the term has been acknowledged.
func (t *Term) Acknowledged() bool { return t.acknowledged.Load() != nil }

// revision returns that of the acknowledgement, or 0.
func (t *Term) revision() uint64 {
	if a := t.acknowledged.Load(); a != nil {
		return a.revision
	}
	return 0
}

// Ballot returns the term's ballot, for fences such as etcd.Fence, and for programs that guard their work by its lease or its
// session's file. To acknowledge or withdraw it, call the methods of the term.
func (t *Term) Ballot() store.Ballot { return t.ballot }

// End ends the term, if it is not over yet: its context has ended when End returns. The cause is ErrResigned if err is nil,
// and otherwise matches ErrFailed and wraps err. The ballot stands until it is withdrawn.
func (t *Term) End(err error) {
	if err != nil {
		t.finish(fmt.Errorf("%w: %w", ErrFailed, err))
		return
	}
	t.finish(ErrResigned)
}

// Withdraw ends the term, if it is not over yet, and withdraws the ballot. Call it for every term that Campaign returned,
// once the leader's work has stopped. It blocks until the ballot is known to be gone, or until ctx ends; then the store goes
// on trying while the session lives. For a term of Run, which goes on, the error matches ErrRunning.
func (t *Term) Withdraw(ctx context.Context) error {
	if t.drive.serves {
		return fmt.Errorf("%w: Run withdraws the ballot when the leader's function has returned", ErrRunning)
	}
	t.finish(ErrResigned)
	defer t.drive.leave() // even if the ballot is gone already: another call might not have come to that
	err := t.ballot.Withdraw(ctx)
	t.withdrawn(err)
	if errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		return nil
	}
	return err
}

// String returns the token, the election and the store.
func (t *Term) String() string {
	return fmt.Sprintf("term %d in election %q on %s", t.Token(), t.c.election, redact.Name(t.c.store))
}

// current reports whether the term goes on at this very call.
func (t *Term) current() bool {
	return t.ended.Load() == nil && t.lease.Holds(t.span)
}

// notify adds an event of the term, in the order in which things happen: see Event.
func (t *Term) notify(e Event) {
	t.c.mu.Lock() // so after begin
	defer t.c.mu.Unlock()
	if t.endNotified && e.Kind != Acknowledged && e.Kind != BallotWithdrawn {
		return
	}
	e.Token = t.Token()
	t.c.notify(e)
	t.endNotified = t.endNotified || e.Kind == TermEnded
}

// finish ends the term, unless it is over already: from here on IsLeader is false, and the context has ended. The ballot
// stands until it is withdrawn, so that no other candidate leads while the leader's work still winds down.
func (t *Term) finish(cause error) {
	t.ending.Do(func() { // other calls wait for the first, so the context has ended when they return
		now := time.Now()
		t.ended.Store(&now)
		if lost := t.lost(); lost != nil { // nothing has noticed before
			cause = lost
		}
		t.cancel(cause)
		if errors.Is(cause, ErrRequested) {
			t.notify(Event{Kind: ResignationRequested})
		}
		t.notify(Event{Kind: TermEnded, Err: cause})
	})
}

// withdrawn concludes the term when its ballot has been withdrawn, or could not be.
func (t *Term) withdrawn(err error) {
	t.c.forget(t)
	if err == nil && t.gone.CompareAndSwap(false, true) {
		t.notify(Event{Kind: BallotWithdrawn, After: time.Since(*t.ended.Load())})
	}
}

// watch ends the term when its lease runs out, its ballot is lost, or what drives the candidate ends. It needs no event
// from the store for that, and no function of the user's runs here. Renewals do not wake it unless one was overdue.
func (t *Term) watch() {
	defer close(t.watched)
	t.finish(t.untilOver())
}

// untilOver returns why the term is over.
func (t *Term) untilOver() error {
	lapsed, lost, asked := t.lease.Lapsed(t.span), t.ballot.Lost(), t.ballot.ResignationRequested()
	var driven <-chan struct{} // once Campaign has returned, its context has no effect
	if t.drive.serves {
		driven = t.drive.ctx.Done()
	}
	var silent <-chan time.Time
	if !t.c.warned.Load() {
		timer := time.NewTimer(t.c.store.TTL())
		defer timer.Stop()
		silent = timer.C
	}
	renewal := t.lease.Last()
	late, renewed := renewal.Overdue, (<-chan struct{})(nil) // once late has been closed, renewed takes its place
	for {
		select {
		case <-lapsed:
			return t.lost()
		case <-lost:
			return t.ballot.Err()
		case <-driven:
			return stoppedBecause(context.Cause(t.drive.ctx))
		case <-asked:
			return ErrRequested
		case <-t.fit.Done():
			return unfit(context.Cause(t.fit))
		case <-t.ctx.Done():
			return nil // it has been said
		case <-late:
			late, renewed = nil, renewal.Changed
			if remaining := t.Remaining(); remaining > 0 && !isClosed(renewed) { // it is not what a later renewal has left
				t.notify(Event{Kind: RenewalOverdue, Remaining: remaining})
			}
		case <-renewed:
			renewal = t.lease.Last()
			late, renewed = renewal.Overdue, nil
		case <-silent:
			if !t.Acknowledged() && !t.c.warned.Swap(true) {
				t.notify(Event{Kind: unacknowledged, Remaining: t.c.store.TTL()})
			}
		}
	}
}

// lost returns why the term is over if its ballot is lost or its lease has lapsed, and nil otherwise.
func (t *Term) lost() error {
	if err := t.ballot.Err(); err != nil {
		return err
	}
	if !t.lease.Holds(t.span) {
		return fmt.Errorf("%w: the session was not renewed before its deadline", ErrLost)
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

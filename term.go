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

// Term is one candidate's time as leader. Its methods may be called from any number of goroutines.
type Term struct {
	c      *Candidate
	drive  *drive
	ballot store.Ballot
	fit    context.Context // ends when the candidate becomes unfit
	lease  *store.Lease
	span   store.Span // of the lease: a lease that lapsed and was renewed later does not revive the term

	ending       sync.Once   // by the first call of finish
	over         atomic.Bool // set before ctx ends
	ctx          context.Context
	cancel       context.CancelCauseFunc
	began        time.Time
	ended        time.Time // written before over is set
	acknowledged atomic.Pointer[time.Time]

	gone      atomic.Bool // the caller of Campaign has given the ballot back
	telling   sync.Mutex  // held while the term begins and while it is told of, so that the beginning is told first
	toldOfEnd bool        // guarded by telling
}

// newTerm returns a term that goes on, and that nothing watches before begin.
func newTerm(c *Candidate, d *drive, fit context.Context, ballot store.Ballot, span store.Span) *Term {
	t := &Term{c: c, drive: d, fit: fit, ballot: ballot, lease: ballot.Lease(), span: span, began: time.Now()}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(d.ctx))
	return t
}

// Election returns the name of the term's election.
func (t *Term) Election() string { return t.c.election }

// Token is the term's fencing token, higher than that of every earlier term of the election. Send it with each write, and let
// the resource refuse tokens lower than the highest it has seen.
func (t *Term) Token() uint64 { return t.ballot.Token() }

// Context ends with the term. Its cause matches ErrLost, ErrResigned, ErrFailed or ErrStopped.
func (t *Term) Context() context.Context { return t.ctx }

// Bind returns a copy of ctx that also ends with the term, with the term's cause: for a request that the leader serves.
func (t *Term) Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	bound, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { end(context.Cause(t.ctx)) })
	return bound, func() { stop(); end(nil) }
}

// Remaining is the time until the term ends unless the session is renewed before. It is zero when the term is over.
func (t *Term) Remaining() time.Duration {
	remaining := t.lease.Remaining() // before current: read later, it could be that of a span which began since
	if !t.current() {
		return 0
	}
	return remaining
}

// Acknowledge tells the followers that this candidate leads. Call it when the work of taking over is done, or at once if
// there is nothing to take over. If a term goes on for a TTL without it, the log has a warning, once per candidate.
//
// The store writes the acknowledgement only while the term's ballot stands, so a leader of the past can't acknowledge.
// Acknowledge blocks until the store has confirmed it; if the outcome of a request is unknown, it tries again. It returns
// early when ctx or the term ends. The error then matches store.ErrUnknownOutcome if followers might have been told. A second
// call does nothing.
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
	b := backoff{first: errorBackoff}
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
			if now := time.Now(); t.acknowledged.CompareAndSwap(nil, &now) {
				t.tell(Event{Kind: Acknowledged, Leader: leader})
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
		t.c.retry(ctx, err, b.delay())
	}
}

func (t *Term) endedError() error {
	if t.over.Load() {
		<-t.ctx.Done() // finish is about to say why
	}
	cause := cmp.Or(context.Cause(t.ctx), t.ballot.Err(), ErrLost) // ErrLost if the lease has just run out
	return fmt.Errorf("%w: the term in election %q is over: %w", ErrNotElected, t.c.election, cause)
}

// Acknowledged reports whether the term has been acknowledged.
func (t *Term) Acknowledged() bool { return t.acknowledged.Load() != nil }

// Ballot is the ballot that the term leads with, for fences such as etcd.Fence, and for programs that guard their work by
// its lease and its session's file. The ballot stands, and its lease goes on, until it is given back. To acknowledge or to
// give it back, call the methods of the term.
func (t *Term) Ballot() store.Ballot { return t.ballot }

// End ends the term, if it is not over yet: its context has ended when End returns. The cause is ErrResigned if err is nil,
// and otherwise matches ErrFailed and wraps err. The ballot stands until Withdraw gives it back, or Run when the leader's
// function has returned. That function may call End before it cleans up.
func (t *Term) End(err error) {
	if err != nil {
		t.finish(fmt.Errorf("%w: %w", ErrFailed, err))
		return
	}
	t.finish(ErrResigned)
}

// Withdraw ends the term, if it is not over yet, and gives the ballot back. Call it for every term that Campaign returned,
// once the leader's work has stopped. It blocks until the ballot is known to be gone, or until ctx ends; then it returns an
// error, and the store goes on trying as long as the session lives. A term of Run is refused with ErrRunning, and goes on.
func (t *Term) Withdraw(ctx context.Context) error {
	if t.drive.serves {
		return fmt.Errorf("%w: Run gives the ballot back when the leader's function has returned", ErrRunning)
	}
	t.finish(ErrResigned)
	defer t.drive.leave() // also if the ballot is gone already: another call might not have come to that
	defer t.c.letGo(t)
	err := t.ballot.Withdraw(ctx)
	if errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		return nil
	}
	if err == nil && t.gone.CompareAndSwap(false, true) {
		t.tell(Event{Kind: BallotGivenBack, After: time.Since(t.ended)})
	}
	return err
}

// String returns the token, the election and the store.
func (t *Term) String() string {
	return fmt.Sprintf("term %d in election %q on %s", t.Token(), t.c.election, redact.Name(t.c.store))
}

// current reports whether the term goes on at this very call.
func (t *Term) current() bool {
	return !t.over.Load() && t.lease.Holds(t.span)
}

// begin makes the term the candidate's, and tells that it has begun. It is refused after Stop.
func (t *Term) begin() error {
	t.telling.Lock()
	defer t.telling.Unlock()
	if err := t.c.keep(t); err != nil {
		return err
	}
	t.c.tell(Event{Kind: TermBegan, Token: t.Token()})
	return nil
}

// tell tells of the term, in the order in which things happen. Nothing is told after the end but what outlives it.
func (t *Term) tell(e Event) {
	t.telling.Lock()
	defer t.telling.Unlock()
	if t.toldOfEnd && e.Kind != Acknowledged && e.Kind != BallotGivenBack {
		return
	}
	e.Token = t.Token()
	t.c.tell(e)
	t.toldOfEnd = t.toldOfEnd || e.Kind == TermEnded
}

// finish ends the term, unless it is over already: from here on IsLeader is false, and the context has ended. The ballot
// stands until it is given back, so that no other candidate leads while the leader's work still winds down.
func (t *Term) finish(cause error) {
	t.ending.Do(func() { // the other calls wait for the first, so that the context has ended when they return, too
		t.ended = time.Now()
		t.over.Store(true)
		if lost := t.lost(); lost != nil { // nothing has noticed before
			cause = lost
		}
		t.cancel(cause)
		if errors.Is(cause, ErrRequested) {
			t.tell(Event{Kind: ResignationRequested})
		}
		t.tell(Event{Kind: TermEnded, Err: cause})
	})
}

// giveBack gives the ballot back, and tells if it is known to be gone.
func (t *Term) giveBack() {
	gone := t.c.withdraw(t.ballot)
	t.c.letGo(t)
	if gone {
		t.tell(Event{Kind: BallotGivenBack, After: time.Since(t.ended)})
	}
}

// watch ends the term when its lease runs out, its ballot is lost, or what drives the candidate ends. It needs no event
// from the store for that, and no function of the user's runs here. Renewals do not wake it unless one was overdue.
func (t *Term) watch() { t.finish(t.untilOver()) }

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
	late, renewed := t.lease.Last().Overdue, (<-chan struct{})(nil) // once late has been closed, renewed takes its place
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
			return context.Cause(t.fit)
		case <-t.ctx.Done():
			return nil // it has been said
		case <-late:
			late, renewed = t.reportOverdue(late)
		case <-renewed:
			late, renewed = t.lease.Last().Overdue, nil
		case <-silent:
			if !t.Acknowledged() && !t.c.warned.Swap(true) {
				t.tell(Event{Kind: unacknowledged, Remaining: t.c.store.TTL()})
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

// reportOverdue reports that a renewal is overdue, and returns the channel that tells when the renewal comes. If it has come
// already, reportOverdue returns the channel that tells when the next is overdue.
func (t *Term) reportOverdue(late <-chan struct{}) (_, renewed <-chan struct{}) {
	remaining := t.Remaining() // before last, which shows that this is not what a later renewal has left
	last := t.lease.Last()
	if last.Overdue != late { // it has come
		return last.Overdue, nil
	}
	if remaining > 0 {
		t.tell(Event{Kind: RenewalOverdue, Remaining: remaining})
	}
	return nil, last.Changed
}

// stoppedBecause is why a term ends with the context of Run.
func stoppedBecause(cause error) error {
	if errors.Is(cause, ErrStopped) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrStopped, cause)
}

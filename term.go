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

// Term is one candidate's time as leader. It is over when the ballot is lost, when its lease runs out, or when the
// candidate resigns or is stopped. Its methods may be called from any number of goroutines.
type Term struct {
	c      *Candidate
	drive  *drive
	ballot store.Ballot
	fit    context.Context // ends when the candidate becomes unfit
	lease  *store.Lease
	span   store.Span // of the lease: a lease that lapsed and was renewed later does not revive the term

	ending       sync.Once   // by the first of those who call end
	over         atomic.Bool // set before ctx ends
	ctx          context.Context
	cancel       context.CancelCauseFunc
	began        time.Time
	ended        time.Time // written before over is set
	acknowledged atomic.Pointer[time.Time]
	asked        atomic.Int32 // how many requests to acknowledge have been made that the store might have carried out

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

// Token is the term's fencing token: higher than that of every earlier term of the election. Give it to every
// resource the leader writes to, and let the resource refuse tokens lower than the highest it has seen.
func (t *Term) Token() uint64 { return t.ballot.Token() }

// Context ends with the term. Its cause says why: it matches ErrLost, ErrResigned, ErrFailed or ErrStopped. If the store
// was closed, it matches ErrLost and ErrClosed.
func (t *Term) Context() context.Context { return t.ctx }

// Deadline is when the term ends unless the session is renewed before; renewals move it. It is zero when the term is
// over. It is a time of the local clock: do not compare it with another machine's. Ask again after a suspension of the
// machine, which brings it nearer.
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
	if !t.c.tasks.begin() { // Done is closed, so the term is over: nothing is told any more
		return t.endedError()
	}
	defer t.c.tasks.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(t.endedError()) })()
	b := backoff{first: errorBackoff}
	for {
		t.asked.Add(1) // before the term is looked at: one that ends from here on takes the request for sent
		current := t.current()
		if !current || t.Acknowledged() || ctx.Err() != nil { // nothing is sent
			t.asked.Add(-1)
			switch {
			case !current:
				return t.endedError()
			case t.Acknowledged():
				return nil
			}
			return context.Cause(ctx)
		}
		leader, err := t.ballot.Acknowledge(ctx, t.c.value)
		if err != nil && !errors.Is(err, store.ErrUnknownOutcome) && (ctx.Err() == nil || errors.Is(err, store.ErrUnavailable)) {
			t.asked.Add(-1) // it was not carried out
		}
		if err == nil {
			if now := time.Now(); t.acknowledged.CompareAndSwap(nil, &now) {
				t.tell(event{what: termAcknowledged, leader: leader})
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrLost) {
			t.end(err) // learnt here first, unless the term is over already
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
		<-t.ctx.Done() // end is about to say why
	}
	cause := cmp.Or(context.Cause(t.ctx), t.ballot.Err(), ErrLost) // ErrLost if the lease has just run out
	return fmt.Errorf("%w: the term in election %q is over: %w", ErrNotElected, t.c.election, cause)
}

// Acknowledged reports whether the term has been acknowledged.
func (t *Term) Acknowledged() bool { return t.acknowledged.Load() != nil }

// mightBeKnown reports whether followers might have been told of the term: it has been acknowledged, or it is not known
// whether it was.
func (t *Term) mightBeKnown() bool { return t.asked.Load() > 0 }

// Ballot is the ballot that the term leads with. After the term the ballot stands, and its lease goes on, until the ballot
// is given back. It is for programs that guard their work by themselves: they need its lease and its session's file. To
// acknowledge or to give the ballot back, call the methods of the term and not those of the ballot.
func (t *Term) Ballot() store.Ballot { return t.ballot }

// Resign ends the term, if it is not over yet: the context has ended when Resign returns. It waits for nothing, and does
// not give the ballot back: Withdraw does, or Run when the leader's function has returned.
func (t *Term) Resign() { t.end(ErrResigned) }

// Withdraw ends the term, if it is not over yet, and gives the ballot back. Call it for every term that Campaign returned,
// once the leader's work has stopped: the candidate may campaign again when it has returned. It blocks until the store has
// confirmed that the ballot is gone, or until ctx ends; then it returns an error, and the store goes on in the background
// as long as the session lives.
//
// A term of Run or RunForElection is refused with ErrRunning, and goes on: they give the ballot back when the leader's
// function and the callbacks have returned.
func (t *Term) Withdraw(ctx context.Context) error {
	if t.drive.serves {
		return fmt.Errorf("%w: Run gives the ballot back when the leader's function has returned", ErrRunning)
	}
	t.end(ErrResigned)
	defer t.drive.leave() // also if the ballot is gone already: another call might not have come to that
	defer t.c.letGo(t)
	err := t.ballot.Withdraw(ctx)
	if errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		return nil
	}
	if err == nil && t.gone.CompareAndSwap(false, true) {
		t.tell(event{what: ballotGivenBack, time: time.Since(t.ended)})
	}
	return err
}

// String returns the token, the election and the store.
func (t *Term) String() string {
	return fmt.Sprintf("term %d in election %q on %s", t.Token(), t.c.election, redact.Name(t.c.store))
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (t *Term) Format(f fmt.State, verb rune) { redact.Format(f, verb, t.String()) }

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
	t.c.tell(event{what: termBegan, token: t.Token()})
	return nil
}

// tell tells of the term, in the order in which things happen. Nothing is told after the end but what outlives it.
func (t *Term) tell(e event) {
	t.telling.Lock()
	defer t.telling.Unlock()
	if t.toldOfEnd && e.what != termAcknowledged && e.what != ballotGivenBack {
		return
	}
	e.token = t.Token()
	t.c.tell(e)
	t.toldOfEnd = t.toldOfEnd || e.what == termEnded
}

// end ends the term, unless it is over already: from here on IsLeader is false, and the context has ended. The ballot
// stands until it is given back, so that no other candidate leads while the leader's work still winds down.
func (t *Term) end(cause error) {
	t.ending.Do(func() { // the other calls wait for the first, so that the context has ended when they return, too
		t.ended = time.Now()
		t.over.Store(true) // before termEnded: see termBegan there
		t.c.channels.termEnded()
		if lost := t.lost(); lost != nil { // nothing has noticed before
			cause = lost
		}
		t.cancel(cause)
		if errors.Is(cause, ErrRequested) {
			t.tell(event{what: termRequested})
		}
		t.tell(event{what: termEnded, err: cause})
	})
}

// giveBack gives the ballot back, and tells if it is known to be gone.
func (t *Term) giveBack() {
	gone := t.c.withdraw(t.ballot)
	t.c.letGo(t)
	if gone {
		t.tell(event{what: ballotGivenBack, time: time.Since(t.ended)})
	}
}

// watch ends the term when its lease runs out, its ballot is lost, or what drives the candidate ends. It needs no event
// from the store for that, and no function of the user's runs here. Renewals do not wake it unless one was overdue.
func (t *Term) watch() { t.end(t.untilOver()) }

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
				t.tell(event{what: termUnacknowledged, time: t.c.store.TTL()})
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
		t.tell(event{what: termOverdue, time: remaining})
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

package leadership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Candidate stands for election, again and again. There are three ways to drive it, all on one state machine:
//
//   - Run calls a function while the candidate leads; Campaign is the primitive below it.
//   - RunForElection reports the beginning and the end of each term on a channel.
//   - OnWon, OnNewLeader, OnTakeoverFailed and OnTermEnded register callbacks, for either of the above: the won
//     callbacks come before the function given to Run. Campaign calls the new-leader callbacks only, while it waits.
//
// Candidates and followers on one store share its session: there is one heartbeat for all, and when the session is lost
// their terms end together. They share nothing else; two candidates of one election on one store are rivals like any
// others.
//
// Its states:
//
//	idle ──cast──▶ waiting ──first, and the lease holds──▶ leading ──finish──▶ winding down ──withdraw──▶ idle
//
// A candidate waits while its ballot is not first. It leads from the moment it is first until its term ends: the lease
// ran out, the ballot was lost, it resigned or was stopped. It winds down until the leader's function has returned; the
// session is renewed and the ballot kept meanwhile, so that no other candidate leads. Then the ballot is given back,
// and Run stands again. Two terms of one candidate never overlap.
//
// Its methods may be called from any number of goroutines, and from its own functions, callbacks and hooks: none of
// them waits for the function that calls it. Do not wait for Done in one of them: Done is closed only after they have
// returned.
type Candidate struct {
	news
	store  store.Store
	value  string
	manual bool // Options.ManualAcknowledge

	term     atomic.Pointer[Term] // the term that goes on; set by begin, cleared by finish, both under mu
	channels termChannels
	tasks    *tasks
	warned   atomic.Bool // of an acknowledgement that was missing; once for all terms

	onWon            callbacks[func(context.Context, *Term) error]
	onNewLeader      callbacks[*newLeaderCallback]
	onTakeoverFailed callbacks[func(error)]
	onTermEnded      callbacks[func(*Term, error)]
	turn             chan struct{} // holds one while new-leader callbacks are called: by one goroutine at a time

	mu      sync.Mutex
	stopped bool   // guarded by mu, as are all below: Stop was called
	drive   *drive // nil while idle
	highest uint64 // fencing token seen
}

// NewCandidate returns a candidate for the election. Followers see the value when the candidate leads; it is usually an
// address. NewCandidate sends nothing. It refuses names and values that stores don't take, with an error that matches
// store.ErrInvalid.
func NewCandidate(st store.Store, election, value string, opts *Options) (*Candidate, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	if err := store.CheckValue(value); err != nil {
		return nil, err
	}
	c := &Candidate{store: st, value: value, manual: opts != nil && opts.ManualAcknowledge, tasks: newTasks()}
	c.turn = make(chan struct{}, 1)
	c.news = newNews(election, opts, c.channels.failed)
	return c, nil
}

func checkStore(st store.Store, election string) error {
	if st == nil {
		return &store.FieldError{Field: "store", Reason: "it is nil"}
	}
	return store.CheckElection(election)
}

// IsLeader reports whether the candidate leads at this very call: it compares the clock with the deadline of its
// lease, takes no lock, and sends nothing. It is right even in the first instruction after a long pause.
func (c *Candidate) IsLeader() bool {
	t := c.term.Load()
	return t != nil && t.lease.Holds(t.span)
}

// Term returns the term in which the candidate leads, with its fencing token, and nil if it does not lead.
func (c *Candidate) Term() *Term {
	if t := c.term.Load(); t != nil && t.current() {
		return t
	}
	return nil
}

// Campaign stands for election and returns once the candidate leads. The other ways to drive a candidate are built on
// it. The caller acknowledges, watches Term.Context, and must call Term.Resign when its work has stopped: until then
// the ballot stands, and the candidate can't campaign again. Of the callbacks, Campaign calls only the new-leader
// callbacks.
//
// It returns early with an error when ctx ends, when Stop is called, when the store returns an error that it does not
// retry by itself, such as a denial, when the ballot is lost, or with ErrNoLease. It gives the ballot back first, which
// takes no longer than one TTL. Once Campaign has returned, ctx has no effect on the term.
func (c *Candidate) Campaign(ctx context.Context) (*Term, error) {
	d, err := c.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	won := false
	defer func() {
		d.cancel(nil)
		if !won {
			d.leave()
		}
	}()
	t, err := c.campaign(d)
	if err != nil {
		return nil, err
	}
	won = true
	return t, nil
}

// campaign casts a ballot, waits until it is first, and begins a term.
func (c *Candidate) campaign(d *drive) (*Term, error) {
	ctx := d.ctx
	ballot, err := c.store.Campaign(ctx, c.election, c.value)
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	t, err := c.await(d, ballot)
	if err != nil {
		c.giveBack(ballot)
		return nil, causeOr(ctx, err)
	}
	return t, nil
}

// await waits until the ballot is first and its lease holds, and begins its term.
func (c *Candidate) await(d *drive, ballot store.Ballot) (*Term, error) {
	ctx := d.ctx
	if err := c.checkToken(ballot.Token()); err != nil {
		return nil, err
	}
	c.log.Debug("standing", "token", ballot.Token())
	stopTelling := c.tellOfNewLeaders(d)
	err := ballot.Wait(ctx)
	stopTelling()
	if err != nil {
		return nil, err
	}
	select {
	case <-resignation(ballot):
		return nil, errRequested
	default:
	}
	patience := time.NewTimer(c.store.TTL())
	defer patience.Stop()
	for {
		renewal := ballot.Lease().Last()
		if span, ok := ballot.Lease().Begin(); ok { // the term lasts as long as this unbroken run of renewals
			return c.begin(d, ballot, span)
		}
		// First in line, and the session is not confirmed: an outage, or a link so slow that every answer comes too
		// late. Only a renewal can show that the session stands. Without one, the ballot must not keep the others
		// waiting.
		select {
		case <-renewal.Changed:
		case <-ballot.Lost():
			return nil, ballot.Err()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			return nil, fmt.Errorf("%w: gave way after %v to the next in line", ErrNoLease, c.store.TTL())
		}
	}
}

// checkToken refuses a token that is not higher than all that this candidate has seen.
func (c *Candidate) checkToken(token uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token <= c.highest {
		return fmt.Errorf("%w: election %q gave %d after %d; was the store restored to an earlier state?",
			ErrTokenRegressed, c.election, token, c.highest)
	}
	c.highest = token
	return nil
}

// begin begins a term: from here on IsLeader is true.
func (c *Candidate) begin(d *drive, ballot store.Ballot, span store.Span) (*Term, error) {
	t := &Term{candidate: c, drive: d, ballot: ballot, lease: ballot.Lease(), span: span}
	t.reports = queue{start: d.tasks.Go, tell: t.report, busy: true} // until the hook of the beginning has returned
	t.told.Add(1)
	d.tasks.Add(1) // the term could be given back meanwhile, by its hook
	defer d.tasks.Done()
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(d.ctx))
	c.mu.Lock() // Stop takes it too: it either finds the term or has been called before
	if c.stopped {
		c.mu.Unlock()
		return nil, ErrStopped
	}
	c.term.Store(t)
	c.mu.Unlock()
	d.tasks.Go(t.watch)
	returned := false
	defer func() {
		t.reports.resume()
		if !returned { // the hook has panicked, or has ended its goroutine: this call gives the ballot back, or nothing does
			c.finish(t, ErrResigned)
			c.giveBack(ballot)
		}
	}()
	c.tell(event{what: termBegan, token: t.Token()})
	returned = true
	return t, nil
}

// finish ends a term, unless it is over already: from here on IsLeader is false, and the context has ended. The ballot
// stands until it is given back, so that no other candidate leads while the leader's work still winds down. It waits for
// no function of the user's.
func (c *Candidate) finish(t *Term, cause error) {
	c.mu.Lock() // so that a call which finds no term finds its context ended, too
	over := c.term.Load() != t
	if !over {
		c.term.Store(nil)
		c.channels.termEnded()
		t.cancel(cause)
	}
	c.mu.Unlock()
	if !over {
		c.note(event{what: termEnded, token: t.Token(), err: cause})
	}
}

// Resign ends the candidate's term, if it leads: IsLeader is false when Resign returns, and the term's context has
// ended. It waits for nothing. Run and RunForElection give the ballot back when the leader's function and the callbacks
// have returned, and stand again, at the back of the queue. The ballot of a term that Campaign returned stands until
// Term.Resign gives it back.
func (c *Candidate) Resign() {
	c.mu.Lock()
	t := c.term.Load()
	c.mu.Unlock()
	if t != nil {
		c.finish(t, ErrResigned)
	}
}

// Acknowledge tells the followers that this candidate leads, if Options.ManualAcknowledge leaves that to the caller. It
// is refused with ErrNotElected if the candidate does not lead. See Term.Acknowledge.
func (c *Candidate) Acknowledge(ctx context.Context) error {
	t := c.term.Load()
	if t == nil {
		return fmt.Errorf("%w: election %q", ErrNotElected, c.election)
	}
	return t.Acknowledge(ctx)
}

// Stop ends the candidacy for good and returns at once. IsLeader is false from then on, and the context of a term has
// ended. What is running winds down: the leader's function returns, the ballot is given back, the channels of
// RunForElection are closed. Done tells when that is over. The ballot of a term that Campaign returned stands until
// Term.Resign gives it back, since only its owner knows when the work has stopped. Calling Stop again, or before
// anything else, is allowed.
func (c *Candidate) Stop() {
	c.mu.Lock()
	c.stopped = true
	d, t := c.drive, c.term.Load()
	c.mu.Unlock()
	if d != nil {
		d.cancel(ErrStopped)
	}
	if t != nil {
		c.finish(t, ErrStopped)
	}
	c.tasks.stop()
}

// Done returns a channel that is closed when Stop has been called and nothing of the candidate's is left: no call of
// Run or Campaign, no function, callback or hook, no goroutine, and no term whose ballot has not been given back.
// Giving the ballot back takes one round trip, or one TTL if the store does not answer. Close the store after that, or
// the next leader might begin while the work of this one still winds down.
func (c *Candidate) Done() <-chan struct{} { return c.tasks.done }

// giveBack withdraws a ballot. It waits for the store no longer than one TTL: a session is gone by then if the service
// does not hear from it, and a link that takes longer than that can't keep one. The store goes on by itself after that.
func (c *Candidate) giveBack(ballot store.Ballot) {
	ctx, cancel := context.WithTimeout(context.Background(), c.store.TTL())
	defer cancel()
	err := ballot.Withdraw(ctx)
	if err != nil && !errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		c.log.Warn("could not confirm that the ballot was removed", "token", ballot.Token(), "error", err)
	}
}

// causeOr returns the cause of ctx if that has ended, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

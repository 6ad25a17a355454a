package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-leadership/leadership/internal/goroutine"
	"github.com/go-leadership/leadership/store"
)

// Candidate stands for election, again and again. There are three ways to drive it, all on one state machine:
//
//   - Run calls a function while the candidate leads; Campaign is the primitive below it.
//   - RunForElection reports winning and losing on a channel.
//   - OnWon, OnLost and OnTakeoverFailed register callbacks, for either of the above: the won callbacks come before the
//     function given to Run. Campaign calls the lost ones only, while it waits.
//
// Candidates and followers on one store share its session: one heartbeat for all, and when it is lost their terms end
// together. They share nothing else; two candidates of one election on one store are rivals like any others.
//
// The state machine is in candidate.go, with Run in run.go and the terms in term.go:
//
//	idle ──cast──▶ waiting ──first, and the lease holds──▶ leading ──finish──▶ winding down ──release──▶ idle
//
// A candidate waits while its ballot is not first. It leads from the moment it is first until its term is finished:
// the lease ran out, the ballot was lost, it resigned or was stopped. It winds down until the leader's function has
// returned; the session is renewed and the ballot kept meanwhile, so that nobody else leads. Then the ballot is given
// back, and Run stands again. Two terms of one candidate never overlap.
//
// Its methods may be called from any number of goroutines, and from its own functions, callbacks and hooks.
type Candidate struct {
	store    store.Store
	election string
	value    string
	opts     Options
	log      *slog.Logger

	term      atomic.Pointer[Term] // the term that goes on; set by begin, cleared by Term.finish
	events    events
	callbacks callbacks
	inside    goroutine.Set // those in a function of the user's: where one of them asks to stop, waiting would be for itself

	life context.Context // ends with Stop
	stop context.CancelCauseFunc

	mu      sync.Mutex
	busy    chan struct{} // guarded by mu, as are all below; nil while idle, closed when it becomes idle again
	running bool          // by Run, which releases the terms itself
	held    *Term         // not yet released
	highest uint64        // fencing token seen
}

// NewCandidate returns a candidate for the election. The value is what it acknowledges with: what followers want to
// know of their leader, an address as a rule. It sends nothing. Names and values that the stores don't take are
// refused with an error that matches store.ErrInvalid.
func NewCandidate(st store.Store, election, value string, opts *Options) (*Candidate, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	if err := store.CheckValue(value); err != nil {
		return nil, err
	}
	c := &Candidate{store: st, election: election, value: value, opts: opts.orDefault()}
	c.log = c.opts.Logger.With("election", election)
	c.life, c.stop = context.WithCancelCause(context.Background())
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

// Campaign stands for election and returns once the candidate leads. It is the primitive on which the rest is built;
// the caller acknowledges, watches Term.Context, and calls Term.Resign when its work has stopped, in any case. Of the
// callbacks it calls the lost ones only. It returns early with an error when ctx ends or Stop is called, when the store fails in a
// way that it can't mend by itself, or when the ballot is lost; the ballot is given back first, which takes no longer
// than the rest of its lease. Once Campaign has returned, ctx has no effect on the term.
func (c *Candidate) Campaign(ctx context.Context) (*Term, error) {
	if err := c.enter(false); err != nil {
		return nil, err
	}
	won := false
	defer func() {
		if !won {
			c.exit()
		}
	}()
	ctx, done := c.bound(ctx)
	defer done()
	t, err := c.campaign(ctx)
	if err != nil {
		return nil, err
	}
	won = true
	return t, nil
}

// campaign casts a ballot, waits until it is first, and begins a term.
func (c *Candidate) campaign(ctx context.Context) (*Term, error) {
	ballot, err := c.store.Campaign(ctx, c.election, c.value)
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	t, err := c.await(ctx, ballot)
	if err != nil {
		withdrawn, cancel := c.withdrawal(ballot)
		defer cancel()
		if err := ballot.Withdraw(withdrawn); err != nil {
			c.log.Warn("the ballot was not seen to go", "token", ballot.Token(), "error", err)
		}
		return nil, causeOr(ctx, err)
	}
	return t, nil
}

// await waits until the ballot is first and its lease holds, and begins its term.
func (c *Candidate) await(ctx context.Context, ballot store.Ballot) (*Term, error) {
	if err := c.checkToken(ballot.Token()); err != nil {
		return nil, err
	}
	c.log.Debug("standing", "token", ballot.Token())
	stopLosing := c.watchLosing(ctx)
	err := ballot.Wait(ctx)
	stopLosing() // no lost callback runs while the candidate leads
	if err != nil {
		return nil, err
	}
	for {
		renewal := ballot.Lease().Last()
		if span, ok := ballot.Lease().Begin(); ok { // the term lasts as long as this unbroken run of renewals
			return c.begin(ctx, ballot, span)
		}
		// First in line, and the session is not confirmed: an outage. Only a renewal can tell that it still stands.
		select {
		case <-renewal.Changed:
		case <-ballot.Lost():
			return nil, ballot.Err()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
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
func (c *Candidate) begin(ctx context.Context, ballot store.Ballot, span store.Span) (*Term, error) {
	t := &Term{
		candidate: c, ballot: ballot, lease: ballot.Lease(), span: span,
		watched: make(chan struct{}), observed: make(chan struct{}), finished: make(chan struct{}), released: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	if c.life.Err() != nil {
		c.mu.Unlock()
		return nil, ErrStopped
	}
	c.held = t
	c.term.Store(t)
	c.mu.Unlock()
	go t.watch() // these two end with the term, and giveBack waits for them
	go t.observe()
	told := false
	defer func() {
		if !told { // the hook has panicked: nobody is going to release the term
			withdrawn, cancel := c.withdrawal(ballot)
			defer cancel()
			_ = t.giveBack(withdrawn)
			c.drop()
		}
	}()
	c.log.Info("elected", "token", t.Token())
	c.inside.Do(func() { c.opts.Hooks.won(c.election, t.Token()) })
	told = true
	return t, nil
}

// Resign steps down where the candidate leads, and does nothing where it does not. It blocks until the ballot has
// been given back, which under Run is when the leader's function has returned, or until ctx ends. Run and RunForElection then
// stand again, at the back of the queue. Called from the candidate's own functions, callbacks or hooks it does not
// wait: they have to return first.
func (c *Candidate) Resign(ctx context.Context) error {
	c.mu.Lock()
	t := c.held
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.Resign(ctx)
}

// releaseSoon releases a term from its own hook, which release would wait for.
func (c *Candidate) releaseSoon(t *Term) {
	go func() { // Stop waits for it: the candidate is busy until the release
		ctx, cancel := c.withdrawal(t.ballot)
		defer cancel()
		_ = t.release(ctx) // the store goes on by itself
	}()
}

// Acknowledge tells the followers that this candidate leads, for those who chose Options.ManualAcknowledge. It is
// refused with ErrNotElected where the candidate does not lead. See Term.Acknowledge.
func (c *Candidate) Acknowledge(ctx context.Context) error {
	t := c.term.Load()
	if t == nil {
		return fmt.Errorf("%w: election %q", ErrNotElected, c.election)
	}
	return t.Acknowledge(ctx)
}

// Stop ends the candidacy for good: it steps down, gives the ballot back, closes the channels of RunForElection and
// returns when nothing of the candidate's is left running. It waits for the functions and callbacks of the user's
// that are running, and for the store no longer than the rest of the lease. Called from one of those functions or a
// hook it does not wait; a goroutine that such a function waits for must not call it. A term that Campaign returned is
// ended and its ballot given back whether or not its owner has stopped working: end the work first. Calling Stop
// again, or before anything else, is allowed.
func (c *Candidate) Stop() {
	c.stop(ErrStopped)
	if t := c.term.Load(); t != nil {
		t.finish(ErrStopped)
	}
	inside := c.inside.Has()
	for {
		c.mu.Lock()
		busy, t, running := c.busy, c.held, c.running
		c.mu.Unlock()
		switch {
		case inside && t != nil && !running: // a hook in a term that Campaign returned: nobody else releases it
			c.releaseSoon(t)
			return
		case inside: // Run or Campaign releases what there is, once the function that calls us has returned
			return
		case busy == nil: // idle: there is nothing to end
			return
		case t != nil && !running: // a term that Campaign returned is released here, whatever its owner does
			ctx, cancel := c.withdrawal(t.ballot)
			_ = t.release(ctx) // the store goes on by itself
			cancel()
			return
		default: // Run, or Campaign that has not won yet, is on its way out: look again when it has come there
			<-busy
		}
	}
}

// enter makes an idle candidate busy.
func (c *Candidate) enter(running bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.life.Err() != nil:
		return ErrStopped
	case c.busy != nil:
		return fmt.Errorf("%w: %q", ErrRunning, c.election)
	}
	c.busy, c.running = make(chan struct{}), running
	return nil
}

// exit makes it idle again.
func (c *Candidate) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.busy)
	c.busy = nil
}

// leave forgets a term whose ballot has been given back.
func (c *Candidate) leave() {
	if !c.drop() {
		c.exit()
	}
}

// drop forgets the term, and reports whether Run goes on.
func (c *Candidate) drop() (running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = nil
	return c.running
}

// holds reports whether the term's ballot has not been given back, and whether that is Run's to do.
func (c *Candidate) holds(t *Term) (held, running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held == t, c.running
}

// bound returns a context that ends with ctx and with Stop.
func (c *Candidate) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(ErrStopped) })
	return ctx, func() { stop(); cancel(nil) }
}

// withdrawal returns a context for giving a ballot back: no longer than its lease lasts, after which the session of
// a store that does not answer is as good as gone.
func (c *Candidate) withdrawal(ballot store.Ballot) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), ballot.Lease().Remaining())
}

// causeOr returns the cause of ctx where that has ended, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

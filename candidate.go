package leadership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store"
)

// Candidate stands for election, again and again. There are three ways to drive it, all on one state machine:
//
//   - Run calls a function while the candidate leads.
//   - RunForElection reports the beginning and the end of each term on a channel.
//   - Campaign returns a term, and its caller does the rest.
//
// OnWon, OnNewLeader, OnTakeoverFailed and OnTermEnded register callbacks for Run and RunForElection. The won callbacks
// come before the function given to Run. Campaign calls only the new-leader callbacks, while it waits. A callback that
// panics or calls runtime.Goexit has failed: the log and the error channel report it.
//
// Candidates and followers on one store share its session: there is one heartbeat for all, and when the session is lost
// their terms end together. They share nothing else; two candidates of one election on one store are rivals like any
// others.
//
// Its states, which Status tells:
//
//	idle ──▶ casting ──▶ waiting ──first, and the lease holds──▶ leading ──end──▶ winding down ──withdraw──▶ idle
//
// A candidate waits while its ballot is not first. It leads from the moment it is first until its term ends: the lease
// ran out, the ballot was lost, it resigned or was stopped. Status says that it is taking over until it has acknowledged,
// and that it is unfit instead of casting while the check of Options.Fitness fails. It winds down until the leader's
// function has returned; the session is renewed and the ballot kept meanwhile, so that no other candidate leads. Then the
// ballot is given back, and Run stands again. Two terms of one candidate never overlap.
//
// Its methods may be called from any number of goroutines, and from its own functions, callbacks and hooks: none of
// them waits for the function that calls it. Do not wait for Done in one of them: Done is closed only after they have
// returned.
type Candidate struct {
	news
	store     store.Store
	value     string
	channels  termChannels
	checking  chan struct{} // holds one while a check of the fitness is under way
	fitness   Fitness       // complete; without a check if there is none
	warned    atomic.Bool   // of an acknowledgement that was missing; once for all terms
	giveWayTo []string
	seen      seen // belongs to the drive, as does gaveWay
	gaveWay   bool // since its last term

	onWon            callbacks[func(context.Context, *Term) error]
	onNewLeader      callbacks[*newLeaderCallback]
	onTakeoverFailed callbacks[func(error)]
	onTermEnded      callbacks[func(*Term, error)]
	turn             chan struct{} // holds one while new-leader callbacks are called: by one goroutine at a time

	tasks *tasks               // each drive is one of them, with all that it has started
	term  atomic.Pointer[Term] // from its beginning until its ballot has been given back, or nil

	mu      sync.Mutex
	stopped bool         // guarded by mu, as are all below: Stop was called
	current *drive       // nil while the candidate is idle
	status  Status       // outside of a term
	waiting store.Ballot // the ballot that waits, if one does
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
	c := &Candidate{store: st, value: value, turn: make(chan struct{}, 1), checking: make(chan struct{}, 1), tasks: newTasks()}
	if opts != nil {
		c.giveWayTo = slices.Clone(opts.GiveWayTo)
	}
	if opts != nil && opts.Fitness != nil {
		var err error
		if c.fitness, err = opts.Fitness.complete(); err != nil {
			return nil, err
		}
	}
	c.news = newNews(election, opts, c.tasks, c.channels.showError)
	c.status.Since = time.Now()
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
	return c.Term() != nil
}

// Term returns the term in which the candidate leads, with its fencing token, and nil if it does not lead.
func (c *Candidate) Term() *Term {
	if t := c.term.Load(); t != nil && t.current() {
		return t
	}
	return nil
}

// Resign calls Resign of the candidate's term, if it leads: IsLeader is false when Resign returns, and the term's context has
// ended. It waits for nothing. Run and RunForElection give the ballot back when the leader's function and the callbacks
// have returned, and stand again, at the back of the queue. The ballot of a term that Campaign returned stands until
// Term.Withdraw gives it back.
func (c *Candidate) Resign() {
	if t := c.term.Load(); t != nil {
		t.Resign()
	}
}

// Stop ends the candidacy for good and returns at once. IsLeader is false from then on, and the context of a term has
// ended. What is running winds down: the leader's function returns, the ballot is given back, the channels of
// RunForElection are closed. Done tells when that is over. The ballot of a term that Campaign returned stands until
// Term.Withdraw gives it back, since only its owner knows when the work has stopped. Calling Stop again, or before
// anything else, is allowed.
func (c *Candidate) Stop() {
	c.mu.Lock()
	c.stopped = true
	d := c.current
	c.mu.Unlock()
	if d != nil {
		d.cancel(ErrStopped)
	}
	c.tasks.stop()
	if t := c.term.Load(); t != nil {
		t.end(ErrStopped)
	}
}

// Done returns a channel that is closed when Stop has been called and nothing of the candidate's is left: no call of Run,
// Campaign or Term.Acknowledge, no function, callback or hook, no goroutine, and no term whose ballot has not been given
// back. Giving the ballot back takes one round trip, or one TTL if the store does not answer. Close the store after that,
// or the next leader might begin while the work of this one still winds down.
func (c *Candidate) Done() <-chan struct{} { return c.tasks.done }

// OnWon registers a function to call when the candidate has won, before it acknowledges. Functions are called one
// after the other in the order registered; the acknowledgement waits for all of them. If one returns an error or panics,
// or if the term ends meanwhile, the takeover has failed: the rest is left out, the function
// given to Run is not called, nothing is acknowledged, the takeover-failed callbacks are called, and the candidate goes
// to the back of the queue. ctx ends with the term. Register before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnWon(f func(ctx context.Context, term *Term) error) {
	c.onWon.add(f, f == nil)
}

// OnNewLeader registers a function to call once for each leader that has acknowledged, while the candidate waits for its
// turn; leaders that follow each other quickly are coalesced. A Follower's callback is called in all states. This one is
// not called while the candidate leads or its term winds down: the function is called for the next leader once the
// candidate stands again.
//
// ctx ends when the candidate wins or stops standing. The candidate does not wait for the function then: one that goes
// on runs beside the term. It delays the next call of the new-leader callbacks, the return of Run, and Done.
//
// A candidate with such a function also follows the election, so each change of leader costs it a request. Register
// before Run, RunForElection or Campaign.
func (c *Candidate) OnNewLeader(f func(ctx context.Context, leader Leader)) {
	c.onNewLeader.add(&newLeaderCallback{call: f}, f == nil)
}

// OnTakeoverFailed registers a function to call when the candidate had won and its term ended without an acknowledgement.
// The function can undo what was begun: the ballot still stands, so no other candidate leads as long as the session is
// renewed. It is called once for each such term, with the reason, which matches ErrFailed, ErrResigned, ErrStopped or
// ErrLost. A leader's function that returns nil and has not acknowledged has resigned. If the outcome of an
// acknowledgement is unknown it is not called, since followers might have been told; OnTermEnded's function is. Register
// before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnTakeoverFailed(f func(err error)) {
	c.onTakeoverFailed.add(f, f == nil)
}

// OnTermEnded registers a function to call when a term has ended and its work has stopped: the won callbacks and the
// function given to Run have returned, and so have the takeover-failed callbacks. It is called once for each term of
// Run or RunForElection, acknowledged or not, and never for a candidate that did not lead. The cause is that of the
// term's context, and matches ErrLost, ErrResigned, ErrFailed or ErrStopped.
//
// The ballot is given back when the function has returned, so that no other candidate leads before as long as the session
// is renewed. Register before Run or RunForElection; Campaign does not call it, since its caller knows when the work has
// stopped.
func (c *Candidate) OnTermEnded(f func(term *Term, cause error)) {
	c.onTermEnded.add(f, f == nil)
}

// String returns the election and the store, and not the value: that may be anything.
func (c *Candidate) String() string {
	return fmt.Sprintf("candidate in election %q on %s", c.election, redact.Name(c.store))
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (c *Candidate) Format(f fmt.State, verb rune) { redact.Format(f, verb, c.String()) }

// withdraw gives a ballot back, and reports whether the ballot is known to be gone. It waits for the store no longer than
// one TTL: a session is gone by then if the service does not hear from it, and a link that takes longer than that can't
// keep one. The store goes on by itself after that.
func (c *Candidate) withdraw(ballot store.Ballot) (gone bool) {
	ctx, cancel := context.WithTimeout(context.Background(), c.store.TTL())
	defer cancel()
	err := ballot.Withdraw(ctx)
	if err != nil && !errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		c.say(slog.LevelWarn, "could not confirm that the ballot was removed", "token", ballot.Token(), "error", err)
	}
	return err == nil
}

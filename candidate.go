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
	"github.com/go-leadership/leadership/internal/trouble"
	"github.com/go-leadership/leadership/store"
)

// Candidate stands for election, again and again. [Candidate.Run] calls a function while it leads; [Candidate.Campaign]
// returns a term, and its caller does the rest. Packages channels and callbacks offer Run in other styles.
//
// Candidates and followers on one store share its session: there is one heartbeat for all, and when the session is lost
// their terms end together. In all else, they are rivals like any others.
//
// Status tells which of these states a candidate is in:
//
//	idle ──▶ casting ──▶ waiting ──first, and the lease holds──▶ leading ──end──▶ winding down ──withdraw──▶ idle
//
// A candidate leads from the moment its ballot is first until its term ends: the lease ran out, the ballot was lost, or the
// candidate resigned or was stopped. Until it has acknowledged, Status says that it is taking over. It winds down until the
// leader's function has returned. Meanwhile the session is renewed and the ballot stands, so that no other candidate leads.
// Then Run gives the ballot back, and stands again.
//
// Its methods may be called from any number of goroutines, and from the functions given to it: none of them waits for the
// function that calls it. Done, however, is closed only after those functions have returned.
type Candidate struct {
	news
	store     store.Store
	value     string
	checking  chan struct{} // holds one while a check of the fitness is under way
	fitness   Fitness       // complete; without a check if there is none
	warned    atomic.Bool   // of an acknowledgement that was missing; once for all terms
	giveWayTo []string
	seen      seen // belongs to the drive, as does gaveWay
	gaveWay   bool // since its last term

	tasks *tasks               // each drive is one of them, with all that it has started
	term  atomic.Pointer[Term] // from its beginning until its ballot has been given back, or nil

	mu      sync.Mutex
	stopped bool         // guarded by mu, as are all below: Stop was called
	current *drive       // nil while the candidate is idle
	status  Status       // outside of a term
	waiting store.Ballot // the ballot that waits, if one does
}

// NewCandidate returns a candidate for the election. The value, usually an address, is what followers see when the candidate
// leads. NewCandidate sends nothing. An error matches store.ErrInvalid: stores don't take the name or the value.
func NewCandidate(st store.Store, election, value string, opts *CandidateOptions) (*Candidate, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	if err := store.CheckValue(value); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &CandidateOptions{}
	}
	c := &Candidate{store: st, value: value, giveWayTo: slices.Clone(opts.GiveWayTo), checking: make(chan struct{}, 1), tasks: newTasks()}
	if opts.Fitness != nil {
		var err error
		if c.fitness, err = opts.Fitness.complete(); err != nil {
			return nil, err
		}
	}
	c.news = newNews(election, opts.Logger, opts.Events, c.tasks)
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
	_, leads := c.Term()
	return leads
}

// Term returns the term in which the candidate leads, and true; or nil and false if it does not lead. It costs what
// IsLeader does.
func (c *Candidate) Term() (term *Term, leads bool) {
	if t := c.term.Load(); t != nil && t.current() {
		return t, true
	}
	return nil, false
}

// Resign calls End of the candidate's term, if it leads. Run gives the ballot back when the leader's function has returned,
// and stands again, at the back of the queue.
func (c *Candidate) Resign() {
	if t := c.term.Load(); t != nil {
		t.End(nil)
	}
}

// Stop ends the candidacy for good, and returns at once: IsLeader is false from then on, and the context of a term has
// ended. Done tells when the leader's function has returned and the ballot has been given back. Stop may be called again,
// and before anything else.
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
		t.finish(ErrStopped)
	}
}

// Done returns a channel that is closed after Stop, when nothing of the candidate is left: no call of Run, Campaign or
// Term.Acknowledge, no function of the program's, no goroutine, and no ballot. A term that Campaign returned is left until
// Term.Withdraw has been called. Giving the ballot back takes one round trip, or one TTL if the store does not answer. Close
// the store only after that: otherwise the next leader might begin while this one's work still winds down.
func (c *Candidate) Done() <-chan struct{} { return c.tasks.done }

// String returns the election and the store.
func (c *Candidate) String() string {
	return fmt.Sprintf("candidate in election %q on %s", c.election, redact.Name(c.store))
}

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

// State is what a candidate is doing.
type State int

// The states of a candidate, in the order in which it comes to them.
const (
	Idle        State = iota // it is not driven: it was not yet, or no more
	Unfit                    // its check fails: it does not stand
	Casting                  // it asks the store for a ballot, or pauses before the next try
	Waiting                  // its ballot stands and waits for its turn
	TakingOver               // it leads, and has not acknowledged
	Leading                  // it leads, and has acknowledged
	WindingDown              // its term is over; its ballot stands until its work has stopped and the ballot is given back
)

// String returns the name of the state as metrics and logs have it: "taking_over".
func (s State) String() string {
	names := [...]string{"idle", "unfit", "casting", "waiting", "taking_over", "leading", "winding_down"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("state %d", int(s))
	}
	return names[s]
}

// Status is what is known of a candidate at the time of the call.
type Status struct {
	State     State
	Since     time.Time     // of the state
	Token     uint64        // of its ballot; 0 without one
	TTL       time.Duration // of its store's session
	Remaining time.Duration // of the lease; 0 unless it leads
	Overdue   bool          // it has a ballot, and a renewal of the session is overdue
	Requested bool          // an operator has asked for the resignation of its ballot
	Stood     bool          // it has had a ballot
	Unfit     error         // why the last check of its fitness has failed; nil if it has succeeded, and without a check
	LastError error         // of the last attempt that failed, or request without an answer, since the last ballot was cast
}

// Status returns what the candidate is doing. As in IsLeader, the clock decides whether it leads. It sends nothing.
func (c *Candidate) Status() Status {
	c.mu.Lock()
	s, ballot, t, d := c.status, c.waiting, c.term.Load(), c.current
	c.mu.Unlock()
	if d != nil && d.fit != nil {
		s.Unfit = d.fit.result()
	}
	s.TTL = c.store.TTL()
	if t != nil {
		ballot = t.ballot
		s.State, s.Since = t.state()
		s.Remaining = t.Remaining()
		if s.Remaining == 0 && s.State != WindingDown { // the term has ended since
			s.State, s.Since = t.state()
		}
	}
	if ballot == nil {
		return s
	}
	s.Token = ballot.Token()
	s.Overdue = isClosed(ballot.Lease().Last().Overdue)
	s.Requested = isClosed(ballot.ResignationRequested())
	return s
}

// Election returns the name of the candidate's election.
func (c *Candidate) Election() string { return c.election }

// Value returns what followers see when the candidate leads.
func (c *Candidate) Value() string { return c.value }

// becomes notes what the candidate does outside of a term, with the ballot that waits, if one does. The caller holds mu.
func (c *Candidate) becomes(s State, waiting store.Ballot) {
	if c.status.State != s {
		c.status.State, c.status.Since = s, time.Now()
	}
	c.waiting = waiting
}

// stands notes that a ballot waits.
func (c *Candidate) stands(ballot store.Ballot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomes(Waiting, ballot)
	c.status.Stood, c.status.LastError = true, nil
}

// standsNoMore notes that a ballot waits no more, and is no term's.
func (c *Candidate) standsNoMore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomes(Casting, nil)
}

// unfit notes that the candidate does not stand since its check fails.
func (c *Candidate) unfit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomes(Unfit, nil)
}

// castBallot is Cast of the store, which might go on for long without an answer. Status says why.
func (c *Candidate) castBallot(ctx context.Context) (store.Ballot, error) {
	return c.store.Cast(trouble.With(ctx, c.failed), c.election, c.value)
}

// failed notes why an attempt has failed.
func (c *Candidate) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.LastError = err
}

// state returns what the candidate does in the term, and since when.
func (t *Term) state() (State, time.Time) {
	acknowledged := t.acknowledged.Load()
	switch {
	case t.over.Load():
		return WindingDown, t.ended
	case !t.current(): // nothing has noticed yet that the lease has run out
		return WindingDown, time.Now()
	case acknowledged == nil:
		return TakingOver, t.began
	}
	return Leading, *acknowledged
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

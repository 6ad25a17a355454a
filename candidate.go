package leadership

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store"
)

// Candidate stands for election, again and again. [Candidate.Run] calls a function while the candidate leads;
// [Candidate.Campaign] returns a term, and its caller does the rest. Packages channels and callbacks offer Run in other styles.
// Candidates on one store share its session: if the session is lost, all their terms end.
//
//	idle ──▶ casting ──▶ waiting ──first, and the lease holds──▶ leading ──end──▶ winding down ──withdraw──▶ casting
//
// While a candidate winds down, until the leader's function has returned, the session is renewed and the ballot stands, so
// that no other candidate leads.
//
// All methods may be called from any number of goroutines, and from the functions given to this package: none waits for the
// function that calls it.
type Candidate struct {
	notifier
	store     store.Store
	value     string
	giveWayTo []string
	fitness   Fitness       // complete; without a check if there is none
	checking  chan struct{} // holds one while a check of the fitness is under way
	warned    atomic.Bool   // of an acknowledgement that was missing; once for all terms
	gaveWay   bool          // since its last term; belongs to the drive, as do tokens
	tokens    tokens

	tasks *tasks               // each drive is one of them, with all that it has started
	term  atomic.Pointer[Term] // from its beginning until its ballot has been withdrawn, or nil

	mu      sync.Mutex   // held also while a term begins and while its events are added, for their order
	stopped bool         // guarded by mu, as are all below: Stop was called
	current *drive       // nil while the candidate is idle
	status  Status       // outside of a term
	waiting store.Ballot // the ballot that waits, if one does
}

// NewCandidate returns a candidate, and sends nothing. Followers see the value, usually an address, when the candidate leads.
// An error matches store.ErrInvalid.
func NewCandidate(st store.Store, election, value string, opts *CandidateOptions) (*Candidate, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	if err := store.CheckValue(value); err != nil {
		return nil, err
	}
	opts = cmp.Or(opts, &CandidateOptions{})
	c := &Candidate{store: st, value: value, giveWayTo: slices.Clone(opts.GiveWayTo), checking: make(chan struct{}, 1), tasks: newTasks()}
	if opts.Fitness != nil {
		var err error
		if c.fitness, err = opts.Fitness.complete(); err != nil {
			return nil, err
		}
	}
	c.notifier = newNotifier(election, opts.Logger, opts.Events, c.tasks)
	c.status.Since = time.Now()
	return c, nil
}

func checkStore(st store.Store, election string) error {
	if st == nil {
		return &store.FieldError{Field: "store", Reason: "it is nil"}
	}
	return store.CheckElection(election)
}

// IsLeader reports whether the candidate leads. It compares the clock with the deadline of its lease, so it is right even in
// the first instruction after a long pause. It takes no lock.
func (c *Candidate) IsLeader() bool {
	_, leads := c.Term()
	return leads
}

// Term returns the term and true if the candidate leads, and nil and false otherwise. It costs what IsLeader does.
func (c *Candidate) Term() (term *Term, leads bool) {
	if t := c.term.Load(); t != nil && t.current() {
		return t, true
	}
	return nil, false
}

// Resign calls End of the candidate's term, if it leads.
func (c *Candidate) Resign() {
	if t := c.term.Load(); t != nil {
		t.End(nil)
	}
}

// Stop ends the candidacy and a term for good, and returns at once. It may be called again, and before anything else.
func (c *Candidate) Stop() {
	c.mu.Lock()
	c.stopped = true
	if d := c.current; d != nil {
		d.cancel(ErrStopped)
	}
	c.mu.Unlock()
	c.tasks.stop()
	if t := c.term.Load(); t != nil {
		t.finish(ErrStopped)
	}
}

// Done returns a channel that is closed after Stop, when nothing of the candidate is left: no call, goroutine or ballot. A term
// of Campaign is left until Term.Withdraw is called. If the store does not answer, Done waits one TTL for the removal of the
// ballot. Close the store after Done: otherwise the next leader might begin while this one winds down.
func (c *Candidate) Done() <-chan struct{} { return c.tasks.done }

// String returns the election and the store.
func (c *Candidate) String() string {
	return fmt.Sprintf("candidate in election %q on %s", c.election, redact.Name(c.store))
}

// Election returns the name of the candidate's election.
func (c *Candidate) Election() string { return c.election }

// Value returns what followers see when the candidate leads.
func (c *Candidate) Value() string { return c.value }

// State is what a candidate is doing.
type State int

const (
	Idle        State = iota // neither Run nor Campaign, nor its term, goes on
	Unfit                    // the check of its fitness fails: it does not stand
	Casting                  // it asks the store for a ballot, or pauses before the next try
	Waiting                  // its ballot waits for its turn
	TakingOver               // it leads, and has not acknowledged
	Leading                  // it leads, and has acknowledged
	WindingDown              // its term is over; its ballot stands until its work has stopped
)

// String returns the name of the state, such as "taking_over".
func (s State) String() string {
	return nameOf("state", int(s), "idle", "unfit", "casting", "waiting", "taking_over", "leading", "winding_down")
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
	Led       time.Time     // until when it had the ballot of its last term; zero if no term is over
	Revision  uint64        // of the acknowledgement in its last term; 0 without one
	Unfit     error         // why the last check of its fitness has failed, or nil
	LastError error         // of the last attempt that failed since the last ballot was cast, or nil
}

// Status returns what the candidate is doing. It sends nothing.
func (c *Candidate) Status() Status {
	c.mu.Lock()
	s, ballot, t, d := c.status, c.waiting, c.term.Load(), c.current
	c.mu.Unlock()
	if d != nil {
		s.Unfit = d.checks.Err()
	}
	s.TTL = c.store.TTL()
	if t != nil {
		ballot = t.ballot
		s.State, s.Since, s.Remaining = t.state()
		s.Revision = t.revision()
	}
	if ballot == nil {
		return s
	}
	s.Token = ballot.Token()
	s.Overdue = isClosed(ballot.Lease().Last().Overdue)
	s.Requested = isClosed(ballot.ResignationRequested())
	return s
}

// enters changes what the candidate does outside of a term, with the ballot that waits, if one does.
func (c *Candidate) enters(s State, waiting store.Ballot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomes(s, waiting)
}

// becomes is enters. The caller holds mu.
func (c *Candidate) becomes(s State, waiting store.Ballot) {
	if c.status.State != s {
		c.status.State, c.status.Since = s, time.Now()
	}
	if s == Waiting {
		c.status.Stood, c.status.LastError = true, nil
	}
	c.waiting = waiting
}

// failed keeps why an attempt has failed, or why a request of the store's has no answer.
func (c *Candidate) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.LastError = err
}

// state returns what the candidate does in the term, since when, and what remains of the lease.
func (t *Term) state() (s State, since time.Time, remaining time.Duration) {
	acknowledged, ended, remaining := t.acknowledged.Load(), t.ended.Load(), t.Remaining()
	switch {
	case ended != nil:
		return WindingDown, *ended, 0
	case remaining == 0: // just now
		return WindingDown, time.Now(), 0
	case acknowledged == nil:
		return TakingOver, t.began, remaining
	}
	return Leading, acknowledged.at, remaining
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// tasks counts what a candidate or a follower still does: calls in progress and goroutines. Done is closed when Stop
// has been called and nothing is left.
type tasks struct {
	mu    sync.Mutex
	count int           // guarded by mu; one of them stands for Stop, which is still to be called
	done  chan struct{} // closed, under mu, when count is zero
	once  sync.Once     // of stop
}

func newTasks() *tasks { return &tasks{count: 1, done: make(chan struct{})} }

// begin counts a task. It is refused once done is closed. While another task runs it never is.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		return false
	}
	t.count++
	return true
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count--
	if t.count == 0 {
		close(t.done)
	}
}

// run runs f in a goroutine and reports whether it does: not once done is closed.
func (t *tasks) run(f func()) bool {
	if !t.begin() {
		return false
	}
	go func() {
		defer t.end()
		f()
	}()
	return true
}

// stop makes the end of the last task close done. It does not block, and may be called again.
func (t *tasks) stop() { t.once.Do(t.end) }

package leadership

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/trouble"
	"github.com/go-leadership/leadership/store"
)

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

// Status returns what the candidate is doing. The clock decides whether it leads, as in IsLeader: it is right even in the
// first instruction after a long pause. It takes a lock for a moment and sends nothing. To guard each request, ask
// IsLeader.
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

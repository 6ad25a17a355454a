package leadership

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// OnWon registers a function to call when the candidate has won, before it acknowledges. Functions are called one
// after the other in the order registered; the acknowledgement waits for all of them. If one returns an error, panics
// or calls runtime.Goexit, or if the term ends meanwhile, the takeover has failed: the rest is left out, the function
// given to Run is not called, nothing is acknowledged, the takeover-failed callbacks are called, and the candidate goes
// to the back of the queue. ctx ends with the term. Register before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnWon(f func(ctx context.Context, term *Term) error) {
	c.onWon.add(f, f == nil)
}

// OnNewLeader registers a function to call once for each leader that has acknowledged, while the candidate waits for
// its turn; leaders that follow each other quickly are coalesced. It is not called while the candidate leads or its
// term winds down: the function is called for the next leader once the candidate stands again.
//
// ctx ends when the candidate wins or stops standing. The candidate does not wait for the function then: one that goes
// on runs beside the term. It delays the next call of the new-leader callbacks, the return of Run, and Done. A panic or
// runtime.Goexit ends that call only, and is reported by the log and the error channel.
//
// A candidate with such a function also follows the election, so each change of leader costs it a request. Register
// before Run, RunForElection or Campaign.
func (c *Candidate) OnNewLeader(f func(ctx context.Context, leader Leader)) {
	c.onNewLeader.add(&newLeaderCallback{call: f}, f == nil)
}

// OnTakeoverFailed registers a function to call when the candidate had won and its term ended without an
// acknowledgement. The function can undo what was begun: the ballot still stands, so no other candidate leads as long
// as the session is renewed. It is called once for each such term, with the reason: the error of a won callback or of
// the function given to Run, or why the term ended, which matches ErrResigned, ErrStopped or ErrLost. A leader's
// function that returns nil and has not acknowledged has resigned. A panic or runtime.Goexit ends that call only, and
// is reported. Register before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnTakeoverFailed(f func(err error)) {
	c.onTakeoverFailed.add(f, f == nil)
}

// OnTermEnded registers a function to call when a term has ended and its work has stopped: the won callbacks and the
// function given to Run have returned, and so have the takeover-failed callbacks. It is called once for each term of
// Run or RunForElection, acknowledged or not, and never for a candidate that did not lead. The cause is that of the
// term's context, and matches ErrLost, ErrResigned or ErrStopped.
//
// The ballot is given back when the function has returned, so that no other candidate leads before as long as the
// session is renewed. A panic or runtime.Goexit ends that call only, and is reported. Register before Run or
// RunForElection; Campaign does not call it, since its caller knows when the work has stopped.
func (c *Candidate) OnTermEnded(f func(term *Term, cause error)) {
	c.onTermEnded.add(f, f == nil)
}

// newLeaderCallback is a callback of Candidate.OnNewLeader.
type newLeaderCallback struct {
	call func(context.Context, Leader)
	last uint64 // revision of the leader that it was called for last; belongs to the goroutine whose turn it is
}

// tellOfNewLeaders calls the new-leader callbacks until stop is called, which does not wait for one that is running.
func (c *Candidate) tellOfNewLeaders(d *drive) (stop context.CancelFunc) {
	list := c.onNewLeader.all()
	if len(list) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(d.ctx)
	d.tasks.Go(func() {
		defer cancel()
		select {
		case c.turn <- struct{}{}:
			defer func() { <-c.turn }()
		case <-ctx.Done(): // a callback of an earlier term is still running
			return
		}
		ask := func(prev *store.Known) (store.Known, error) { return c.store.Observe(ctx, c.election, prev) }
		show := func(known store.Known) { c.callNewLeaders(ctx, list, known.Leader) }
		if err := observe(ctx, c.store, ask, c.tell, show); err != nil {
			c.note(event{what: callbackFailed, err: fmt.Errorf("the new-leader callbacks end: %w", err)})
		}
	})
	return cancel
}

// callNewLeaders calls those who have not been called for this leader.
func (c *Candidate) callNewLeaders(ctx context.Context, list []*newLeaderCallback, leader Leader) {
	for _, callback := range list {
		if leader.Revision == 0 || leader.Revision == callback.last || ctx.Err() != nil {
			continue
		}
		callback.last = leader.Revision
		c.call(func() { callback.call(ctx, leader) })
	}
}

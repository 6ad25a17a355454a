package leadership

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/go-leadership/leadership/store"
)

// callbacks are a candidate's, in the order in which they were registered. Each call runs in a goroutine of its own.
type callbacks struct {
	mu        sync.Mutex
	won       []func(context.Context, *Term) error // guarded by mu, as are all below
	newLeader []*newLeaderCallback
	turn      chan struct{} // holds one while new-leader callbacks are called: by one goroutine at a time; nil if there are none
	failed    []func(error)
	ended     []func(*Term, error)
}

// newLeaderCallback is a callback of OnNewLeader.
type newLeaderCallback struct {
	call func(context.Context, Leader)
	told uint64 // revision of the leader that it was called for last; belongs to the goroutine whose turn it is
}

// OnWon registers a function to call when the candidate has won, before it acknowledges. Functions are called one
// after the other in the order registered; the acknowledgement waits for all of them. If one returns an error, panics
// or calls runtime.Goexit, or if the term ends meanwhile, the takeover has failed: the rest is left out, the function
// given to Run is not called, nothing is acknowledged, the takeover-failed callbacks are called, and the candidate goes
// to the back of the queue. ctx ends with the term. Register before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnWon(f func(ctx context.Context, term *Term) error) {
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.won = append(c.callbacks.won, f)
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
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.newLeader = append(c.callbacks.newLeader, &newLeaderCallback{call: f})
	if c.callbacks.turn == nil {
		c.callbacks.turn = make(chan struct{}, 1)
	}
}

// OnTakeoverFailed registers a function to call when the candidate had won and its term ended without an
// acknowledgement. The function can undo what was begun: the ballot still stands, so no other candidate leads as long
// as the session is renewed. It is called once for each such term, with the reason: the error of a won callback or of
// the function given to Run, or why the term ended, which matches ErrResigned, ErrStopped or ErrLost. A leader's
// function that returns nil and has not acknowledged has resigned. A panic or runtime.Goexit ends that call only, and
// is reported. Register before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnTakeoverFailed(f func(err error)) {
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.failed = append(c.callbacks.failed, f)
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
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.ended = append(c.callbacks.ended, f)
}

// checkCallback panics when the callback is registered, so that the stack shows the mistake.
func checkCallback(isNil bool) {
	if isNil {
		panic("leadership: the callback is nil")
	}
}

func (b *callbacks) onWon() []func(context.Context, *Term) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.won)
}

func (c *Candidate) callTakeoverFailed(err error) {
	c.callbacks.mu.Lock()
	list := slices.Clone(c.callbacks.failed)
	c.callbacks.mu.Unlock()
	for _, failed := range list {
		c.report(call(func() error { failed(err); return nil }))
	}
}

func (c *Candidate) callTermEnded(t *Term) {
	c.callbacks.mu.Lock()
	list := slices.Clone(c.callbacks.ended)
	c.callbacks.mu.Unlock()
	for _, ended := range list {
		c.report(call(func() error { ended(t, context.Cause(t.ctx)); return nil }))
	}
}

// tellOfNewLeaders calls the new-leader callbacks until stop is called, which does not wait for one that is running.
func (c *Candidate) tellOfNewLeaders(d *drive) (stop context.CancelFunc) {
	c.callbacks.mu.Lock()
	list, turn := slices.Clone(c.callbacks.newLeader), c.callbacks.turn
	c.callbacks.mu.Unlock()
	if len(list) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(d.ctx)
	d.start(func() {
		defer cancel()
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			c.followNewLeaders(ctx, list)
		case <-ctx.Done(): // a callback of an earlier term is still running
		}
	})
	return cancel
}

func (c *Candidate) followNewLeaders(ctx context.Context, list []*newLeaderCallback) {
	var prev *store.Known
	b := backoff{first: errorBackoff}
	for {
		known, err := c.store.Observe(ctx, c.election, prev)
		switch {
		case ctx.Err() != nil:
			return
		case store.Permanent(err):
			c.report(fmt.Errorf("the new-leader callbacks end: %w", err))
			return
		case err != nil:
			c.retry(ctx, err, b.delay())
			continue
		}
		b.reset()
		prev = &known // which might be no more than a later AsOf
		leader := known.Leader
		for _, callback := range list {
			if leader.Revision == 0 || leader.Revision == callback.told || ctx.Err() != nil {
				continue
			}
			callback.told = leader.Revision
			c.report(call(func() error { callback.call(ctx, leader); return nil }))
		}
	}
}

// errGoexit reports a callback that ended its goroutine.
var errGoexit = errors.New("a callback has called runtime.Goexit")

// call calls a function of the user's in a goroutine of its own and waits for it, so that neither a panic nor
// runtime.Goexit ends more than that call: both become an error, a panic with its stack.
func call(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic in a callback: %v\n%s", p, debug.Stack())
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}

// report reports a failure that is not tried again.
func (c *Candidate) report(err error) {
	if err == nil {
		return
	}
	c.log.Error("callback failed", "error", err)
	c.channels.failed(err)
}

package leadership

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/go-leadership/leadership/internal/goroutine"
	"github.com/go-leadership/leadership/store"
)

// callbacks are a candidate's, in the order in which they were registered.
type callbacks struct {
	mu     sync.Mutex
	onWon  []func(context.Context, *Term) error // guarded by mu, as are all below
	onLost []func(context.Context, Leader)
	onFail []func(error)
	told   uint64 // revision of the leader that the lost callbacks were last called for
}

// OnWon registers a function to call when the candidate has won, before it acknowledges. Functions are called one
// after the other in the order registered; the acknowledgement waits for all of them. Where one returns an error or
// panics, or the term ends meanwhile, the rest is left out, the function given to Run is not called, nothing is
// acknowledged, the takeover-failed callbacks are called, and the candidate goes to the back of the queue. ctx ends
// with the term. Register before Run or RunForElection; Campaign does not call it.
func (c *Candidate) OnWon(f func(ctx context.Context, term *Term) error) {
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.onWon = append(c.callbacks.onWon, f)
}

// OnLost registers a function to call, while the candidate stands and has not won, once for each leader that has
// acknowledged, with its record; leaders that follow each other quickly are coalesced. ctx ends when the candidate
// wins or stops standing. It is not called while the candidate leads or its term winds down: of the leader after it the
// candidate is told once it stands again. A candidate with such a function follows the election besides standing in it,
// so that each change of leader costs it a request. Register before Run, RunForElection or Campaign.
func (c *Candidate) OnLost(f func(ctx context.Context, leader Leader)) {
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.onLost = append(c.callbacks.onLost, f)
}

// OnTakeoverFailed registers a function to call when the candidate had won and did not get as far as acknowledging:
// what was begun can be undone here, while the ballot still stands, so that nobody else leads as long as the session
// is renewed. It is called once for each term that ended without an acknowledgement, with the reason: the error of a
// won callback or of the function given to Run, or why the term ended, which matches ErrResigned, ErrStopped or
// ErrLost. A leader's function that returns nil and has not acknowledged has resigned. Register before Run or
// RunForElection.
func (c *Candidate) OnTakeoverFailed(f func(err error)) {
	checkCallback(f == nil)
	c.callbacks.mu.Lock()
	defer c.callbacks.mu.Unlock()
	c.callbacks.onFail = append(c.callbacks.onFail, f)
}

// checkCallback panics at once, where the mistake is, and not when the callback is due.
func checkCallback(isNil bool) {
	if isNil {
		panic("leadership: the callback is nil")
	}
}

func (b *callbacks) won() []func(context.Context, *Term) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.onWon)
}

func (c *Candidate) callFailed(err error) {
	c.callbacks.mu.Lock()
	list := slices.Clone(c.callbacks.onFail)
	c.callbacks.mu.Unlock()
	for _, failed := range list {
		c.report(guard(&c.inside, func() error { failed(err); return nil }))
	}
}

// watchLosing calls the lost callbacks while the candidate is waiting, until the function that it returns is called,
// which waits for a callback that is running.
func (c *Candidate) watchLosing(ctx context.Context) (stop func()) {
	c.callbacks.mu.Lock()
	list := slices.Clone(c.callbacks.onLost)
	c.callbacks.mu.Unlock()
	if len(list) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.followAsLoser(ctx, list)
	}()
	return func() { cancel(); <-done }
}

func (c *Candidate) followAsLoser(ctx context.Context, list []func(context.Context, Leader)) {
	var prev *Leader
	b := backoff{first: errorBackoff}
	for {
		leader, err := c.store.Leader(ctx, c.election, prev)
		switch {
		case ctx.Err() != nil:
			return
		case store.Permanent(err):
			c.report(fmt.Errorf("lost callbacks end: %w", err))
			return
		case err != nil:
			c.retry(ctx, err, b.delay())
			continue
		}
		b.reset()
		prev = &leader
		if leader.Revision == 0 || !c.callbacks.news(leader) {
			continue
		}
		for _, lost := range list {
			c.report(guard(&c.inside, func() error { lost(ctx, leader); return nil }))
		}
	}
}

// news reports whether the lost callbacks have not been told of this leader yet.
func (b *callbacks) news(leader Leader) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if leader.Revision == b.told {
		return false
	}
	b.told = leader.Revision
	return true
}

// guard calls a function of the user's and turns a panic into an error with its stack.
func guard(inside *goroutine.Set, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a callback: %v\n%s", p, debug.Stack())
		}
	}()
	inside.Do(func() { err = f() })
	return err
}

// report tells of a failure that nobody is going to try again.
func (c *Candidate) report(err error) {
	if err == nil {
		return
	}
	c.log.Error("failed", "error", err)
	c.events.failed(err)
}

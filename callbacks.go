package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// callbacks are functions of the user's, in the order in which they were registered.
type callbacks[F any] struct {
	mu   sync.Mutex
	list []F // guarded by mu; what all has returned does not change
}

// add registers a function. It panics if that is nil, so that the stack shows the mistake.
func (b *callbacks[F]) add(f F, isNil bool) {
	if isNil {
		panic("leadership: the callback is nil")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(slices.Clip(b.list), f)
}

func (b *callbacks[F]) all() []F {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list
}

// call calls a callback or a hook. It reports one that did not return.
func (n *news) call(f func()) {
	if err := teller.Call(func() error { f(); return nil }); err != nil {
		n.tell(event{what: callbackFailed, err: err})
	}
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
			c.tell(event{what: callbackFailed, err: fmt.Errorf("the new-leader callbacks end: %w", err)})
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

// OnNewLeader registers a function to call for each leader that acknowledges, the present one included, in the order
// registered. A leader that came and went while a callback was running is left out. A callback that blocks holds up the
// callbacks of the follower and Done, and nothing else. ctx ends with the follower. A panic is reported. Register before
// the follower starts: a function that is registered later is called from the next change on, and the log has a warning.
func (f *Follower) OnNewLeader(call func(ctx context.Context, leader Leader)) {
	f.onNewLeader.add(call, call == nil)
	f.warnIfStarted()
}

// OnLeaderGone registers a function to call when there is no leader any more, and at the start if there is none.
// Between two leaders it is called once, even if the follower saw the second take over at once. A callback that blocks or
// panics has the same effects as one of OnNewLeader. Register before the follower starts, as there.
func (f *Follower) OnLeaderGone(call func(ctx context.Context)) {
	f.onLeaderGone.add(call, call == nil)
	f.warnIfStarted()
}

// warnIfStarted logs that a callback was registered after the follower had started.
func (f *Follower) warnIfStarted() {
	f.mu.Lock()
	started := f.started
	f.mu.Unlock()
	if started {
		f.say(slog.LevelWarn, "a callback was registered after the follower had started: it is called from the next change on")
	}
}

// callBack calls the callbacks, if they don't know of this leader. What came while one was running, and has gone, they
// are not told of.
func (f *Follower) callBack(leader Leader) {
	before, first := f.calledFor, !f.called
	if f.ctx.Err() != nil || !first && leader == before {
		return
	}
	f.called, f.calledFor = true, leader
	if before.Revision != 0 || leader.Revision == 0 {
		for _, gone := range f.onLeaderGone.all() {
			f.call(func() { gone(f.ctx) })
		}
	}
	if leader.Revision == 0 {
		return
	}
	for _, callback := range f.onNewLeader.all() {
		f.call(func() { callback(f.ctx, leader) })
	}
}

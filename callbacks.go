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

// call calls a function of the program's in a goroutine of its own and waits for it. All callbacks, hooks and log handlers are
// called here. A panic and runtime.Goexit end that call only: both become an error, a panic with its stack.
func call(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("a callback has called runtime.Goexit")
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

// call is call for a function without an error of its own. It reports one that did not return.
func (n *news) call(f func()) {
	if err := call(func() error { f(); return nil }); err != nil {
		n.note(event{what: callbackFailed, err: err})
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
	if started && f.tasks.begin() {
		defer f.tasks.end()
		f.log.Warn("a callback was registered after the follower had started: it is called from the next change on")
	}
}

// newQueue returns a queue whose events are told while the follower goes on.
func (f *Follower) newQueue(tell func(event)) *queue {
	return &queue{
		start: func(run func()) { f.tasks.run(run) }, // it is not refused: follow adds the events, and is a task
		tell: func(e event) {
			if f.ctx.Err() == nil {
				tell(e)
			}
		},
	}
}

// queueOfChanges returns a queue that tells of each leader that differs from the one before, and of that.
func (f *Follower) queueOfChanges(tell func(before Leader, e event)) *queue {
	var last Leader
	known := false
	return f.newQueue(func(e event) {
		if known && e.leader == last { // what came between was not told
			return
		}
		before := last
		known, last = true, e.leader
		tell(before, e)
	})
}

// callBack calls the callbacks.
func (f *Follower) callBack(before Leader, e event) {
	if before.Revision != 0 || e.leader.Revision == 0 {
		for _, gone := range f.onLeaderGone.all() {
			f.call(func() { gone(f.ctx) })
		}
	}
	if e.leader.Revision == 0 {
		return
	}
	for _, callback := range f.onNewLeader.all() {
		f.call(func() { callback(f.ctx, e.leader) })
	}
}

// queue tells events in the background, one after the other, in a goroutine that runs while there are any. A function of
// the user's that hangs delays the next event of this queue, and nothing else.
type queue struct {
	start func(run func()) // runs a function in a goroutine that the owner waits for
	tell  func(event)

	mu   sync.Mutex
	list []event // guarded by mu, as is busy: what is still to be told
	busy bool    // a goroutine tells, or none may begin yet
}

// add adds an event. It replaces one of its kind that has not been told, so that there are never more than there are kinds.
// It does not block.
func (q *queue) add(e event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(waiting event) bool { return waiting.what == e.what })
	q.list = append(q.list, e)
	if !q.busy {
		q.busy = true
		q.start(q.run)
	}
}

// resume tells what has been added while the queue was busy with something else, which is over.
func (q *queue) resume() { q.start(q.run) }

func (q *queue) run() {
	for e, ok := q.next(); ok; e, ok = q.next() {
		q.tell(e)
	}
}

func (q *queue) next() (event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		q.list, q.busy = nil, false
		return event{}, false
	}
	e := q.list[0]
	q.list = q.list[1:]
	return e, true
}

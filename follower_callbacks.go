package leadership

import "errors"

// OnNewLeader registers a function to call for each leader that acknowledges, the present one included, in the order
// registered. A leader that came and went while a callback was running is left out. A callback that blocks holds up the
// callbacks of the follower and Done, and nothing else. A panic or runtime.Goexit ends that call only, and is reported
// by the log and the error channel. Register before the follower starts: a function that is registered later is called from
// the next change on, and the log has a warning.
func (f *Follower) OnNewLeader(call func(leader Leader)) {
	f.onNewLeader.add(call, call == nil)
	f.warnIfStarted()
}

// OnLeaderGone registers a function to call when there is no leader any more, and at the start if there is none.
// Between two leaders it is called once, even if the follower saw the second take over at once. A callback that blocks,
// panics or calls runtime.Goexit has the same effects as one of OnNewLeader. Register before the follower starts, as there.
func (f *Follower) OnLeaderGone(call func()) {
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
			f.call(gone)
		}
	}
	if e.leader.Revision == 0 {
		return
	}
	for _, callback := range f.onNewLeader.all() {
		f.call(func() { callback(e.leader) })
	}
}

// errHookExited ends a follower whose hook has called runtime.Goexit.
var errHookExited = errors.New("a hook has called runtime.Goexit")

// callHook calls the hook of an event.
func (f *Follower) callHook(e event) {
	returned := false
	defer func() {
		if !returned {
			f.end(errHookExited)
		}
	}()
	f.hooks.tell(f.election, e)
	returned = true
}

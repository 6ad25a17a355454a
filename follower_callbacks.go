package leadership

import (
	"context"
	"errors"
	"slices"
)

// OnNewLeader registers a function to call for each leader that acknowledges, the present one included, in the order
// registered. A leader that came and went while a callback was running is left out. A callback that blocks holds up the
// callbacks of the follower and Done, and nothing else. A panic or runtime.Goexit ends that call only, and is reported
// by the log and the error channel. Register before the follower starts.
func (f *Follower) OnNewLeader(call func(leader Leader)) {
	checkCallback(call == nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onNew = append(f.onNew, call)
}

// OnLeaderGone registers a function to call when there is no leader any more, and at the start if there is none.
// Between two leaders it is called once, even if the follower saw the second take over at once. A callback that blocks,
// panics or calls runtime.Goexit has the same effects as one of OnNewLeader. Register before the follower starts.
func (f *Follower) OnLeaderGone(call func()) {
	checkCallback(call == nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onGone = append(f.onGone, call)
}

// callback calls the callbacks.
func (f *Follower) callback() {
	f.mu.Lock()
	onNew, onGone := slices.Clone(f.onNew), slices.Clone(f.onGone)
	f.mu.Unlock()
	led := false
	for leader := range f.Changes(context.Background()) { // no two without a leader follow each other
		if led || leader.Revision == 0 {
			for _, gone := range onGone {
				f.report(call(func() error { gone(); return nil }))
			}
		}
		led = leader.Revision != 0
		if !led {
			continue
		}
		for _, told := range onNew {
			f.report(call(func() error { told(leader); return nil }))
		}
	}
}

// report reports a failure that is not tried again.
func (f *Follower) report(err error) {
	if err != nil {
		f.log.Error("callback failed", "error", err)
		f.fail(err)
	}
}

// errHookExited ends a follower whose hook has called runtime.Goexit.
var errHookExited = errors.New("a hook has called runtime.Goexit")

// callLeaderChanged calls the hook for each change.
func (f *Follower) callLeaderChanged() {
	defer f.end(errHookExited) // unless it has ended
	known := false
	for leader := range f.Changes(context.Background()) {
		if known || leader.Revision != 0 {
			f.opts.Hooks.tell(f.election, event{what: leaderChanged, leader: leader})
		}
		known = true
	}
}

// callError calls the hook for each failure.
func (f *Follower) callError() {
	defer f.end(errHookExited) // unless it has ended
	for {
		select {
		case failed := <-f.failures:
			f.opts.Hooks.tell(f.election, failed)
		case <-f.life.Done():
			return
		}
	}
}

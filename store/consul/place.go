package consul

import (
	"context"
	"slices"
	"time"
)

// place gives the watch a place of its own, if one is free. The caller holds mu; the watch has none, and is known.
func (w *watch) place() {
	all := &w.driver.watches
	now := time.Now()
	all.held = slices.DeleteFunc(all.held, now.After)
	if all.queries+len(all.held) < places {
		ctx, cancel := context.WithCancel(w.driver.life.Background)
		if w.driver.life.Go(func() { defer cancel(); w.follow(ctx) }) {
			all.queries++
			w.cancel, w.overdue = cancel, false
			w.unshare()
			return
		}
		cancel()
	}
	w.share()
}

// share leaves the watch to overlook. The caller holds mu.
func (w *watch) share() {
	all := &w.driver.watches
	if w.sharing {
		return
	}
	all.shared++
	w.sharing, w.unchecked = true, true
	all.wake()
	if !all.over {
		all.over = w.driver.life.Go(w.driver.overlook)
	}
}

// unshare takes the watch from overlook, if it has it. The caller holds mu.
func (w *watch) unshare() {
	if !w.sharing {
		return
	}
	w.driver.watches.shared--
	w.sharing = false
	w.driver.watches.wake()
}

// wake lets overlook see what has changed.
func (all *watches) wake() {
	select {
	case all.changed <- struct{}{}:
	default:
	}
}

// release gives the place back, which the agent may hold on to for some time. The caller holds mu.
func (w *watch) release(after time.Duration) {
	all := &w.driver.watches
	all.queries--
	if after > 0 {
		all.held = append(all.held, time.Now().Add(after))
	}
	w.cancel = nil
}

package consul

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"
)

// follow asks for the next state, again and again, until the watch ends or its connection breaks.
func (w *watch) follow(ctx context.Context) {
	all := &w.driver.watches
	var pace pace
	for wait := time.Duration(0); ; wait = min(2*wait, mostWait) {
		all.mu.Lock()
		if wait == 0 {
			wait = max(firstWait, eachWait*time.Duration(all.queries))
		}
		version, index := w.version, w.index
		all.mu.Unlock()
		asked := time.Now()
		p, meta, err := w.driver.client.KV().Get(w.key, w.ask(ctx, index, wait))
		if err != nil {
			_ = w.driver.explain(ctx, err)
			w.broken(held(wait) - time.Since(asked))
			return
		}
		early := meta.LastIndex == index && time.Since(asked) < wait/2
		if meta.LastIndex < index || early {
			// The servers' state was replaced by a snapshot, or the server that answered is behind.
			pace.pause(ctx)
			_, _ = w.refresh(ctx)
			continue
		}
		if time.Since(asked) > wait/2 {
			pace.reset()
		}
		if !w.accept(version, entryOf(p), meta.LastIndex, time.Time{}) {
			_, _ = w.refresh(ctx)
		}
		all.mu.Lock()
		w.overdue = false
		// A ballot that is gone never comes back: there is nothing more to wait for.
		done := ctx.Err() != nil || !w.ack && !w.state.exists
		if done {
			w.release(0)
		}
		if done && !w.removed() && (w.ack || w.state.exists) {
			w.share()
		}
		all.mu.Unlock()
		if done {
			return
		}
	}
}

func (w *watch) ask(ctx context.Context, index uint64, wait time.Duration) *api.QueryOptions {
	q := w.driver.readOptions(ctx)
	q.WaitIndex, q.WaitTime = index, wait
	return q
}

// broken is called when a query has failed: because the watch has ended, as a rule. Otherwise overlook sees what may
// have been missed, for all watches whose queries broke off at once, and looks after them until the next look gives
// them places again.
func (w *watch) broken(after time.Duration) {
	w.driver.watches.mu.Lock()
	defer w.driver.watches.mu.Unlock()
	w.release(after)
	if !w.removed() {
		w.share()
	}
}

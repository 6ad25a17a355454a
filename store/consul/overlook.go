package consul

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// calm is the least time between two rounds of overlook: the most that a watch without a place of its own is late,
// besides the requests themselves.
const calm = 200 * time.Millisecond

// overlook watches all keys that have no place of their own, while there are any: by one query for the names directly
// below the prefix, which returns when anything below it changes, wherever that is. Then transactions find out which
// of the keys it was. While others' elections change all the time, that is so many requests per round; while nothing
// changes, none.
func (d *driver) overlook() {
	all := &d.watches
	ctx, cancel := context.WithCancel(d.life.Background)
	defer cancel()
	wait, index := firstWait, uint64(1)
	moved := d.anyChange(ctx, index, wait)
	asked := time.Now()
	every := false // all of them have to be looked at, not just the new ones
	for {
		began := time.Now()
		list, ok := all.sharing(every)
		if !ok {
			all.mu.Lock()
			all.held = append(all.held, asked.Add(held(wait)))
			all.mu.Unlock()
			return
		}
		if d.verify(d.life.Background, list) == nil {
			every = false
		} else {
			every = true
			all.wake()
		}
		adapter.PauseFor(d.life.Background, calm-time.Since(began))
		select {
		case at := <-moved:
			every = every || at != index
			if at == index {
				wait = min(2*wait, mostWait)
			}
			index = max(1, at)
			moved = d.anyChange(ctx, index, wait)
			asked = time.Now()
		case <-all.changed:
		case <-d.life.Background.Done():
			return
		}
	}
}

// sharing returns the watches without a place, all or those that have not been looked at yet. It reports false if
// there are none any more: then overlook ends.
func (all *watches) sharing(every bool) (list []*watch, ok bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.shared == 0 {
		all.over = false
		return nil, false
	}
	for _, w := range all.byKey {
		if w.sharing && (every || w.unchecked) {
			list = append(list, w)
		}
	}
	return list, true
}

// anyChange sends the index of the next change of anything below the prefix, or the same index if there was none
// for the time of the wait; 0 if it could not be found out.
func (d *driver) anyChange(ctx context.Context, index uint64, wait time.Duration) <-chan uint64 {
	at := make(chan uint64, 1)
	if !d.life.Go(func() {
		q := d.readOptions(ctx)
		q.WaitIndex, q.WaitTime = index, wait
		_, meta, err := d.client.KV().Keys(d.layout.prefix+"/", "/", q)
		if err != nil {
			_ = d.explain(ctx, err)
			adapter.Pause(ctx)
			at <- 0
			return
		}
		at <- meta.LastIndex
	}) {
		at <- 0
	}
	return at
}

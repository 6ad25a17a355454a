package consul

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// batch is how many keys one transaction looks at: Consul takes 128 operations.
const batch = 120

// Confirm implements engine.Driver. It looks at all acknowledgements that are watched, and at the ballots whose turn it
// is, in transactions of up to 120 keys.
func (d *driver) Confirm(ctx context.Context) error {
	ctx = look(ctx)
	if len(d.config.Addresses) > 1 { // then an agent that does not answer is left
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.config.TTL/2)
		defer cancel()
	}
	d.promote()
	list := d.watches.next(batch)
	switch {
	case len(list) > 0:
		return d.verify(ctx, list)
	case d.isIdle():
		return errIdle
	}
	_, err := d.get(ctx, d.layout.prefix) // any answer will do
	return err
}

// errIdle says that a store without a session watches nothing: it asks for nothing.
var errIdle = errors.New("nothing is watched")

// isIdle reports whether no session is kept.
func (d *driver) isIdle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present == ""
}

// next returns the acknowledgements, and as many ballots as there is room for in the last batch of n. A query that has
// not told yet what the last look found is broken off.
func (all *watches) next(n int) []*watch {
	all.mu.Lock()
	defer all.mu.Unlock()
	var list, ballots []*watch
	for e := all.turns.Front(); e != nil; e = e.Next() {
		w := e.Value.(*watch)
		switch {
		case !w.known:
		case w.ack:
			list = append(list, w)
		case len(ballots) < n:
			ballots = append(ballots, w)
		}
	}
	most := max(n, (len(list)+n-1)/n*n)
	list = append(list, ballots[:min(len(ballots), most-len(list))]...)
	for _, w := range list {
		all.turns.MoveToBack(w.turn)
		if w.overdue && w.cancel != nil {
			w.cancel()
		}
	}
	return list
}

// promote gives places that have come free to watches without one.
func (d *driver) promote() {
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	if d.watches.shared == 0 {
		return
	}
	for _, w := range d.watches.byKey {
		if w.sharing {
			if w.place(); w.sharing {
				return
			}
		}
	}
}

// seen is a watch with the state that must be verified.
type seen struct {
	*watch
	version uint64
	state   entry
}

// verify finds out which of the watches are out of date, and reads those anew. A watch that is up to date costs no
// more than its name.
func (d *driver) verify(ctx context.Context, list []*watch) error {
	for len(list) > 0 {
		n := min(batch, len(list))
		if err := d.verifyBatch(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (d *driver) verifyBatch(ctx context.Context, list []*watch) error {
	var states []seen
	var ops []*api.KVTxnOp
	d.watches.mu.Lock()
	for _, w := range list {
		states = append(states, seen{w, w.version, w.state})
		o := &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: w.key} // the check that a key is absent asks for more permission
		if w.state.exists {
			o = &api.KVTxnOp{Verb: api.KVCheckIndex, Key: w.key, Index: w.state.modify}
		}
		ops = append(ops, o)
	}
	d.watches.mu.Unlock()
	sent := time.Now()
	pairs, err := d.commit(ctx, ops...)
	r := refusalIn(err)
	if errors.Is(err, store.ErrDenied) {
		return d.readEach(ctx, states)
	}
	if err != nil && r == nil {
		return err
	}
	right := map[string]bool{}
	for i, st := range states {
		right[st.key] = st.state.exists && !(r != nil && r.failed(i))
	}
	for _, p := range pairs { // only if no check failed
		right[p.Key] = right[p.Key] || !entryOf(p).exists
	}
	var stale []seen
	for _, st := range states {
		if right[st.key] {
			d.mark(st, sent)
		} else {
			stale = append(stale, st)
		}
	}
	return d.readAll(ctx, stale)
}

// mark notes that a watch's state was that of the service at some time.
func (d *driver) mark(st seen, sent time.Time) {
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	if st.watch.version == st.version {
		st.unchecked = false
		st.tell(engine.News{AsOf: sent})
		st.watch.absent()
	}
}

// readAll reads watches anew.
func (d *driver) readAll(ctx context.Context, stale []seen) error {
	if len(stale) == 0 {
		return nil
	}
	var ops []*api.KVTxnOp
	for _, st := range stale {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: st.key})
	}
	sent := time.Now()
	pairs, err := d.commit(ctx, ops...)
	if err != nil {
		return err
	}
	read := map[string]entry{}
	for _, p := range pairs {
		read[p.Key] = entryOf(p)
	}
	var missing []seen
	for _, st := range stale {
		e, ok := read[st.key]
		if !ok { // left out, because it may not be read
			missing = append(missing, st)
			continue
		}
		if st.accept(st.version, e, e.modify, sent) {
			d.watches.mu.Lock()
			st.unchecked, st.overdue = false, st.cancel != nil
			d.watches.mu.Unlock()
		}
	}
	return d.readEach(ctx, missing)
}

// readEach reads watches one by one, since the token might lack the permission to read one of them, which must be told
// so.
func (d *driver) readEach(ctx context.Context, list []seen) error {
	for _, st := range list {
		_, err := st.refresh(ctx)
		if err != nil && adapter.Uncertain(err) {
			return err
		}
		if err != nil {
			st.deny()
		}
	}
	return nil
}

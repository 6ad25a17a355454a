package kvwatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

// batch is how many keys one transaction verifies: Consul takes 128 operations.
const batch = 120

// Confirm verifies all watched keys that come again, and as many of the others, in turn, as the last transaction has room
// for. It reports whether anything is watched: without that it asks for nothing.
func (all *Watcher) Confirm(ctx context.Context) (asked bool, err error) {
	all.promote()
	list := all.due()
	return len(list) > 0, all.verify(agent.Confirming(ctx), list)
}

// due returns the watches whose turn it is. A query that has not told yet what its last turn found is broken off.
func (all *Watcher) due() []*watch {
	all.mu.Lock()
	defer all.mu.Unlock()
	var list, once []*watch
	for _, w := range all.byKey {
		switch {
		case !w.known:
		case w.once:
			once = append(once, w)
		default:
			list = append(list, w)
		}
	}
	slices.SortFunc(once, func(v, w *watch) int { return cmp.Compare(v.turn, w.turn) })
	room := max(batch, (len(list)+batch-1)/batch*batch) - len(list)
	list = append(list, once[:min(len(once), room)]...)
	all.turns++
	for _, w := range list {
		w.turn = all.turns
		if w.late && w.cancel != nil {
			w.cancel()
		}
	}
	return list
}

// seen is a watch with the state that must be verified.
type seen struct {
	*watch
	version, index uint64
	state          agent.Entry
}

// verify finds out which of the watches are out of date, and reads those anew. A watch that is up to date costs no
// more than its name.
func (all *Watcher) verify(ctx context.Context, list []*watch) error {
	for part := range slices.Chunk(list, batch) {
		if err := all.verifyBatch(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (all *Watcher) verifyBatch(ctx context.Context, list []*watch) error {
	var states []seen
	var ops []*api.KVTxnOp
	all.mu.Lock()
	for _, w := range list {
		states = append(states, seen{w, w.version, w.index, w.state})
		o := &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: w.key} // the check that a key is absent asks for more permission
		if w.state.Exists {
			o = &api.KVTxnOp{Verb: api.KVCheckIndex, Key: w.key, Index: w.state.Modify}
		}
		ops = append(ops, o)
	}
	all.mu.Unlock()
	sent := time.Now()
	pairs, err := all.client.Commit(ctx, ops...)
	r := agent.RefusalIn(err)
	if errors.Is(err, store.ErrDenied) {
		return readEach(ctx, states)
	}
	if err != nil && r == nil {
		return err
	}
	read := entries(pairs) // of those that do not exist only if no check failed
	var stale []seen
	for i, st := range states {
		absent, found := read[st.key]
		right := found && !absent.Exists
		if st.state.Exists {
			right = r == nil || !r.Failed(i)
		}
		if !right {
			stale = append(stale, st)
		} else if !st.accept(st.version, agent.Read{Entry: st.state, Index: st.index}, sent, nil) {
			all.wakeShared() // another state was noted meanwhile, which might be older
		}
	}
	return all.readAll(ctx, stale)
}

// readAll reads watches anew.
func (all *Watcher) readAll(ctx context.Context, stale []seen) error {
	if len(stale) == 0 {
		return nil
	}
	var ops []*api.KVTxnOp
	for _, st := range stale {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: st.key})
	}
	sent := time.Now()
	pairs, err := all.client.Commit(ctx, ops...)
	if err != nil {
		return err
	}
	read := entries(pairs)
	var missing []seen
	for _, st := range stale {
		e, ok := read[st.key]
		switch {
		case !ok: // left out, because it may not be read
			missing = append(missing, st)
		case st.accept(st.version, agent.Read{Entry: e, Index: e.Modify}, sent, nil):
			all.mu.Lock()
			st.late = st.cancel != nil
			all.mu.Unlock()
		default:
			all.wakeShared()
		}
	}
	return readEach(ctx, missing)
}

// entries returns what a transaction has read, by key.
func entries(pairs api.KVPairs) map[string]agent.Entry {
	read := map[string]agent.Entry{}
	for _, p := range pairs {
		if p != nil {
			read[p.Key] = agent.EntryOf(p)
		}
	}
	return read
}

// readEach reads watches one by one, since the token might lack the permission to read one of them, which must be told
// so.
func readEach(ctx context.Context, list []seen) error {
	for _, st := range list {
		_, err := st.read(ctx)
		if err != nil && adapter.Uncertain(err) {
			return err
		}
		if err != nil {
			st.deny()
		}
	}
	return nil
}

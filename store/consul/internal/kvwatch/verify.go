package kvwatch

import (
	"context"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

// batch is how many keys one transaction verifies: Consul takes 128 operations.
const batch = 120

// Confirm verifies all watched keys that come again. It reports whether there are any: without that it asks for nothing.
func (all *Watcher) Confirm(ctx context.Context) (asked bool, err error) {
	all.promote()
	all.mu.Lock()
	list := all.those(func(w *watch) bool { return w.known && !w.once && len(w.users) > 0 })
	all.mu.Unlock()
	return len(list) > 0, all.verify(agent.Confirming(ctx), list)
}

// Newest reads the newest of the watched keys that stand, never come again, and that is accepts. It tells what it has found,
// and reports whether the key still stands. It returns no key if there is none. That a key has gone whose user is about to
// delete it, or has left, says nothing: then Newest reads the next one.
func (all *Watcher) Newest(ctx context.Context, is func(key string) bool) (key string, stands bool, err error) {
	for {
		newest := all.newest(is)
		if newest.watch == nil {
			return "", false, nil
		}
		sent := time.Now()
		read, err := all.client.Get(ctx, newest.key)
		if err != nil {
			return newest.key, false, err
		}
		newest.note(agent.Read{Entry: read.Entry, Index: read.Modify}, sent)
		if stands = all.stands(newest.key, read.Entry); stands || all.wanted(newest.watch) {
			return newest.key, stands, nil
		}
	}
}

// newest returns the watch of the key that Newest reads.
func (all *Watcher) newest(is func(key string) bool) (newest seen) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.byKey {
		if w.once && w.wanted() && all.stands(w.key, w.state) && is(w.key) && (newest.watch == nil || w.state.Create > newest.state.Create) {
			newest = w.seen()
		}
	}
	return newest
}

func (all *Watcher) wanted(w *watch) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return w.wanted()
}

// wanted reports whether a user relies on the key. The caller holds mu.
func (w *watch) wanted() bool { return len(w.users) > 0 && !w.deleting }

// those returns the watches for which is returns true. The caller holds mu.
func (all *Watcher) those(is func(*watch) bool) (list []*watch) {
	for _, w := range all.byKey {
		if is(w) {
			list = append(list, w)
		}
	}
	return list
}

// seen is a watch with the state that must be verified.
type seen struct {
	*watch
	version uint64
	state   agent.Read
}

// seen returns the watch as it is. The caller holds mu.
func (w *watch) seen() seen { return seen{w, w.version, agent.Read{Entry: w.state, Index: w.index}} }

// verify finds out which of the watches are out of date, and reads those anew. A watch that is up to date costs no
// more than its name. If the token may not read one of the keys, those beside it are not verified either.
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
	var checks api.KVTxnOps
	all.mu.Lock()
	for _, w := range list {
		states = append(states, w.seen())
		check := getOrEmpty(w.key) // the check that a key is absent asks for more permission
		if w.state.Exists {
			check = &api.KVTxnOp{Verb: api.KVCheckIndex, Key: w.key, Index: w.state.Modify}
		}
		checks = append(checks, check)
	}
	all.mu.Unlock()
	sent := time.Now()
	pairs, err := all.client.Commit(ctx, checks...)
	refused := agent.RefusalIn(err)
	if err != nil && refused == nil {
		return err
	}
	read := entries(pairs) // those that did not exist, if no check has failed
	var stale []seen
	var reads api.KVTxnOps
	for i, st := range states {
		absent, found := read[st.key]
		right := found && !absent.Exists
		if st.state.Exists {
			right = refused == nil || !refused.Failed(i)
		}
		if right {
			st.note(st.state, sent)
			continue
		}
		stale, reads = append(stale, st), append(reads, getOrEmpty(st.key))
	}
	if len(stale) == 0 {
		return nil
	}
	sent = time.Now()
	if pairs, err = all.client.Commit(ctx, reads...); err != nil {
		return err
	}
	read = entries(pairs)
	for _, st := range stale {
		if e, found := read[st.key]; found { // otherwise it may not be read
			st.note(agent.Read{Entry: e, Index: e.Modify}, sent)
		}
	}
	return nil
}

func getOrEmpty(key string) *api.KVTxnOp { return &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key} }

// note takes note of what was read. If another state was noted meanwhile, that might be older.
func (s seen) note(read agent.Read, sent time.Time) {
	if !s.accept(s.version, read, sent, nil) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.suspect([]*watch{s.watch})
	}
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

package consul

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// batch is how many keys one transaction looks at: Consul takes 128 operations.
const batch = 120

// look looks at the watches whose turn it is, in one transaction: what it costs does not grow with their number.
func (s *Store) look() {
	s.promote()
	list := s.watches.next(batch)
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.life.Background, max(s.config.TTL, requestLimit/2))
	defer cancel()
	if s.verify(ctx, list) != nil {
		return
	}
	s.watches.mu.Lock()
	var oldest time.Time
	all := true
	for _, w := range s.watches.byKey {
		if !w.ack || w.refs == 0 {
			continue
		}
		all = all && !w.verified.IsZero()
		if oldest.IsZero() || w.verified.Before(oldest) {
			oldest = w.verified
		}
	}
	s.watches.mu.Unlock()
	if all && s.polls.Settled() {
		s.told(oldest)
	}
}

// next returns those whose turn it is. A query that has not told yet what the last look found is broken off.
func (all *watches) next(n int) []*watch {
	all.mu.Lock()
	defer all.mu.Unlock()
	var list []*watch
	for range all.turns.Len() {
		e := all.turns.Front()
		all.turns.MoveToBack(e)
		w := e.Value.(*watch)
		if w.overdue && w.cancel != nil {
			w.cancel()
		}
		if w.known && w.err == nil {
			list = append(list, w)
		}
		if len(list) == n {
			break
		}
	}
	return list
}

// promote gives places that have come free to watches without one.
func (s *Store) promote() {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if s.watches.shared == 0 {
		return
	}
	for _, w := range s.watches.byKey {
		if w.sharing && w.err == nil {
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
func (s *Store) verify(ctx context.Context, list []*watch) error {
	for len(list) > 0 {
		n := min(batch, len(list))
		if err := s.verifyBatch(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (s *Store) verifyBatch(ctx context.Context, list []*watch) error {
	var states []seen
	var ops []*api.KVTxnOp
	s.watches.mu.Lock()
	for _, w := range list {
		states = append(states, seen{w, w.version, w.state})
		o := &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: w.key} // the check that a key is absent asks for more permission
		if w.state.exists {
			o = &api.KVTxnOp{Verb: api.KVCheckIndex, Key: w.key, Index: w.state.modify}
		}
		ops = append(ops, o)
	}
	s.watches.mu.Unlock()
	sent := time.Now()
	pairs, err := s.commit(ctx, ops...)
	r := refusalIn(err)
	if errors.Is(err, store.ErrDenied) {
		return s.readEach(ctx, states)
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
			s.mark(st, sent)
		} else {
			stale = append(stale, st)
		}
	}
	return s.readAll(ctx, stale)
}

// mark notes that a watch's state was that of the service at some time.
func (s *Store) mark(st seen, sent time.Time) {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if st.watch.version == st.version {
		st.verified, st.unchecked = sent, false
	}
}

// readAll reads watches anew.
func (s *Store) readAll(ctx context.Context, stale []seen) error {
	if len(stale) == 0 {
		return nil
	}
	var ops []*api.KVTxnOp
	for _, st := range stale {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: st.key})
	}
	sent := time.Now()
	pairs, err := s.commit(ctx, ops...)
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
			s.watches.mu.Lock()
			st.unchecked, st.overdue = false, st.cancel != nil
			s.watches.mu.Unlock()
		}
	}
	return s.readEach(ctx, missing)
}

// readEach reads watches one by one, since the token might lack the permission to read one of them, which must be told
// so.
func (s *Store) readEach(ctx context.Context, list []seen) error {
	for _, st := range list {
		err := st.refresh(ctx)
		if err != nil && adapter.Uncertain(err) {
			return err
		}
		if err != nil {
			st.deny(err)
		}
	}
	return nil
}

package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// removal is a ballot that goes, with its acknowledgement and the leader lock.
type removal struct {
	engine.Removal
	session       *session
	tried, locked bool // it may have acknowledged; it may have taken the leader lock
}

// Remove implements engine.Session. It is one transaction, made from what is known of the keys, and if that is refused,
// from what is read.
func (s *session) Remove(ctx context.Context, gone engine.Removal) error {
	d, st := s.driver, standingOf(gone.Entry)
	d.mu.Lock()
	nearest := st.nearest
	d.mu.Unlock()
	d.noLonger(nearest, gone.Key)
	d.watches.Forget(d.layout.dir(gone.Election))
	st.mu.Lock()
	r := removal{Removal: gone, session: s, tried: gone.Acknowledged, locked: st.locked}
	st.mu.Unlock()
	ack, lock := d.layout.ack(r.Election), d.layout.lock(r.Election)
	known := map[string]agent.Entry{ack: {Exists: r.Revision != 0, Modify: r.Revision, Session: s.id}}
	standing, trusted := true, !r.locked
	for {
		if trusted {
			_, err := d.client.Commit(ctx, r.ops(known, standing)...)
			refused := agent.RefusalIn(err)
			if refused == nil || errors.Is(err, store.ErrDenied) {
				return err
			}
			if refused.Says("invalid session") {
				return s.over()
			}
			adapter.PauseFor(ctx, time.Millisecond)
		}
		var err error
		if known, err = d.readAllOf(ctx, ack, lock, r.Key); err != nil {
			return err
		}
		standing, trusted = stands(r.Key, known[r.Key]), true
		if !standing && r.Revision == 0 && !r.Alone() {
			r.tried, r.locked = false, false // what is there may be that of another ballot of this session
		}
	}
}

// ops returns the operations that remove a ballot. Those on the acknowledgement and the leader lock touch nothing of others: while
// the ballot stands, what our session holds is the ballot's; otherwise only what it is known to have made.
func (r removal) ops(known map[string]agent.Entry, standing bool) []*api.KVTxnOp {
	l, id := r.session.driver.layout, r.session.id
	var ops []*api.KVTxnOp
	if standing && (r.tried || r.locked) {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckSession, Key: r.Key, Session: id})
	}
	own := func(key string, may bool, made uint64) {
		e := known[key]
		switch {
		case !may:
		case !e.Exists:
			if standing { // one may be on its way
				ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key})
			}
		case e.Session == id && (standing || made == 0 || made == e.Modify):
			ops = append(ops,
				&api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: e.Modify}, &api.KVTxnOp{Verb: api.KVDelete, Key: key},
			)
		}
	}
	own(l.ack(r.Election), r.tried, r.Revision)
	own(l.lock(r.Election), r.locked, 0)
	if standingOf(r.Entry).long {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: l.value(r.Election, nameOf(r.Key))})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: r.Key})
}

// readAllOf reads keys in one transaction.
func (d *driver) readAllOf(ctx context.Context, keys ...string) (map[string]agent.Entry, error) {
	var ops []*api.KVTxnOp
	for _, key := range keys {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key})
	}
	pairs, err := d.client.Commit(ctx, ops...)
	if err != nil {
		return nil, err
	}
	if len(pairs) < len(keys) {
		return nil, fmt.Errorf("%w: the token may not read %q, it lacks key:read", store.ErrDenied, keys)
	}
	known := map[string]agent.Entry{}
	for _, p := range pairs {
		known[p.Key] = agent.EntryOf(p)
	}
	return known, nil
}

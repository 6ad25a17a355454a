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

// removal is a ballot that goes, with its acknowledgement.
type removal struct {
	engine.Removal
	session *session
	tried   bool // it may have acknowledged
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
	r := removal{Removal: gone, session: s, tried: gone.Acknowledged}
	ack := d.layout.ack(r.Election)
	known := map[string]agent.Entry{ack: {Exists: r.Revision != 0, Modify: r.Revision, Session: s.id}}
	for standing := true; ; {
		_, err := d.client.Commit(ctx, r.ops(known[ack], standing)...)
		refused := agent.RefusalIn(err)
		if refused == nil || errors.Is(err, store.ErrDenied) {
			return err
		}
		if refused.Says("invalid session") {
			return s.over()
		}
		adapter.PauseFor(ctx, time.Millisecond)
		if known, err = d.readAllOf(ctx, ack, r.Key); err != nil {
			return err
		}
		standing = stands(r.Key, known[r.Key])
		if !standing && r.Revision == 0 && !r.Alone() {
			r.tried = false // what is there may be that of another ballot of this session
		}
	}
}

// ops returns the operations that remove a ballot. Those on the acknowledgement touch nothing of others: while the ballot
// stands, what our session holds is the ballot's; otherwise only what it is known to have made.
func (r removal) ops(ack agent.Entry, standing bool) []*api.KVTxnOp {
	l, id := r.session.driver.layout, r.session.id
	key := l.ack(r.Election)
	var ops []*api.KVTxnOp
	if standing && r.tried {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckSession, Key: r.Key, Session: id})
	}
	switch {
	case !r.tried:
	case !ack.Exists && standing: // one may be on its way
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key})
	case ack.Exists && ack.Session == id && (standing || r.Revision == 0 || r.Revision == ack.Modify):
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: ack.Modify}, &api.KVTxnOp{Verb: api.KVDelete, Key: key})
	}
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

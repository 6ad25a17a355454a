package consul

import (
	"context"
	"errors"
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
	tried   bool // the ballot might have acknowledged
}

// Remove implements engine.Session. One transaction removes the ballot and its acknowledgement, as they are known. If the
// transaction is refused, the keys are read first.
func (s *session) Remove(ctx context.Context, gone engine.Removal) error {
	d, st := s.driver, standingOf(gone.Entry)
	d.mu.Lock()
	delete(d.behind, st.nearest)
	d.mu.Unlock()
	d.watches.Deleting(gone.Key)
	r := removal{Removal: gone, session: s, tried: gone.Acknowledged}
	ack := agent.Entry{Exists: r.Revision != 0, Modify: r.Revision, Session: s.id} // as far as is known
	for standing := true; ; {
		_, err := d.client.Commit(ctx, r.ops(ack, standing)...)
		refused := agent.RefusalIn(err)
		if refused == nil || errors.Is(err, store.ErrDenied) {
			return err
		}
		if refused.Says("invalid session") {
			return s.over()
		}
		adapter.PauseFor(ctx, time.Millisecond)
		own, err := d.client.Get(ctx, r.Key)
		if err != nil {
			return err
		}
		read, err := d.client.Get(ctx, d.layout.ack(r.Election)) // the last: no acknowledgement comes once the ballot is gone
		if err != nil {
			return err
		}
		ack, standing = read.Entry, stands(r.Key, own.Entry)
		if !standing && r.Revision == 0 && !r.Alone() {
			r.tried = false // what is there may be that of another ballot of this session
		}
	}
}

// ops returns the operations that remove a ballot. They remove no acknowledgement of another ballot: while the ballot stands,
// an acknowledgement that the session holds is the ballot's; otherwise only one with the ballot's last revision is.
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

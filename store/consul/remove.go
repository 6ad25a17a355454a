package consul

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// Remove implements engine.Session. One transaction removes the ballot and its acknowledgement, as it is known. If the
// transaction is refused, the acknowledgement is read first.
func (s *session) Remove(ctx context.Context, gone engine.Removal) error {
	d := s.driver
	d.mu.Lock()
	delete(d.behind, standingOf(gone.Entry).nearest)
	d.mu.Unlock()
	d.watches.Deleting(gone.Key)
	ack := agent.Entry{Exists: gone.Revision != 0, Modify: gone.Revision, Session: s.id, Flags: ackFlags(gone.Token)}
	for {
		_, err := d.client.Commit(ctx, s.removal(gone, ack)...)
		if agent.RefusalIn(err) == nil {
			return err
		}
		adapter.PauseFor(ctx, time.Millisecond)
		read, err := d.client.Get(ctx, d.layout.ack(gone.Election))
		if err != nil {
			return err
		}
		ack = read.Entry
	}
}

// removal returns the operations that remove a ballot. If it may have acknowledged, they are refused unless what is at the
// acknowledgement's key is as it was read: else a request to acknowledge might have been carried out meanwhile. They remove
// the acknowledgement of this ballot, even if another program has written over it, and no other.
func (s *session) removal(gone engine.Removal, ack agent.Entry) []*api.KVTxnOp {
	l := s.driver.layout
	key := l.ack(gone.Election)
	var ops []*api.KVTxnOp
	if gone.Acknowledged && ack.Exists {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: ack.Modify})
		if ack.Session == s.id && (ack.Flags == ackFlags(gone.Token) || ack.Flags == 0) {
			ops = append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: key})
		}
	} else if gone.Acknowledged {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key})
	}
	if standingOf(gone.Entry).long {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: l.value(gone.Election, nameOf(gone.Key))})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: gone.Key})
}

package consul

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// Enter implements engine.Session. One transaction makes the ballot and lists the ballots that stand, without long values. If
// the outcome is unknown, the transaction is sent again: it locks the same key for the same session. The first request might
// be carried out after the second, and even after the ballot has been withdrawn. So the transaction requires that the slot's
// mark has not changed since before the first request. Void changes the mark.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	d := s.driver
	key := d.layout.ballot(election, s.id, n)
	ops := []*api.KVTxnOp{s.unchanged(n.Slot)}
	if len(value) <= longValue {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Value: []byte(value), Session: s.id})
	} else {
		ops = append(ops,
			&api.KVTxnOp{Verb: api.KVLock, Key: key, Flags: isLong, Session: s.id},
			&api.KVTxnOp{Verb: api.KVLock, Key: d.layout.value(election, nameOf(key)), Value: []byte(value), Session: s.id},
		)
	}
	ops = append(ops, &api.KVTxnOp{Verb: api.KVGetTree, Key: d.layout.dir(election)})
	pairs, err := d.client.Commit(ctx, ops...)
	r := agent.RefusalIn(err)
	switch {
	case err == nil:
		return s.entered(election, key, value, pairs)
	case r == nil:
		return engine.Entry{}, err
	case r.Says("invalid session"):
		return engine.Entry{}, s.over()
	case r.Failed(0):
		if err := s.readMark(ctx, n.Slot); err != nil {
			return engine.Entry{}, err
		}
	}
	return engine.Entry{}, err
}

// entered finds the ballot's place among the ballots that the transaction has listed.
func (s *session) entered(election, key, value string, pairs api.KVPairs) (engine.Entry, error) {
	d := s.driver
	dir := d.layout.dir(election)
	list := queue(dir, pairs)
	list = slices.CompactFunc(list, func(p, q *api.KVPair) bool { return p.Key == q.Key }) // the lock answers with its key too
	at := slices.IndexFunc(list, func(p *api.KVPair) bool { return p.Key == key })
	if at < 0 { // what may not be read is left out
		err := fmt.Errorf("%w: the token may not read the keys below %q, it lacks key:read", store.ErrDenied, dir)
		return engine.Entry{Token: 1}, err // the ballot stands
	}
	own := agent.EntryOf(list[at])
	st := &standing{long: own.Flags&isLong != 0}
	if !st.long {
		own.Value = value // which the lock does not answer with
	}
	st.made.Store(&own)
	offered := map[string]agent.Read{key: {Entry: own, Index: own.Modify}}
	if at > 0 {
		offered[list[at-1].Key] = agent.Read{Entry: agent.EntryOf(list[at-1]), Index: own.Create}
	}
	d.watches.Offer(dir, offered)
	return engine.Entry{Key: key, Token: own.Create, Place: d.place(key, st, list[:at]), Private: st}, nil
}

// unchanged is the check that the mark of a slot has not changed since it was last read or changed by this store.
func (s *session) unchanged(slot int) *api.KVTxnOp {
	key := s.driver.layout.void(s.id, slot)
	if at := s.marks[slot].Load(); at != 0 {
		return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: at}
	}
	return &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key}
}

// readMark reads the mark of a slot. Void changes the mark, and a request of Void that came late might have changed it again.
func (s *session) readMark(ctx context.Context, slot int) error {
	mark, err := s.driver.client.Get(ctx, s.driver.layout.void(s.id, slot))
	if err == nil {
		s.marks[slot].Store(mark.Modify)
	}
	return err
}

// Void implements engine.Session. One transaction changes the slot's mark and deletes the ballot.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	d := s.driver
	key, mark := d.layout.ballot(election, s.id, n), d.layout.void(s.id, n.Slot)
	d.watches.Deleting(key)
	pairs, err := d.client.Commit(ctx,
		&api.KVTxnOp{Verb: api.KVLock, Key: mark, Value: []byte(n.Name), Session: s.id},
		&api.KVTxnOp{Verb: api.KVDelete, Key: d.layout.value(election, nameOf(key))},
		&api.KVTxnOp{Verb: api.KVDelete, Key: key},
	)
	if r := agent.RefusalIn(err); r != nil && r.Says("invalid session") {
		return s.over()
	}
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if p.Key == mark {
			s.marks[n.Slot].Store(p.ModifyIndex)
		}
	}
	return nil
}

package consul

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// ack is what a ballot knows of its acknowledgement.
type ack struct {
	mu       sync.Mutex
	tried    bool   // guarded by mu, as are all below: there may be one
	seated   bool   // the same of the seat
	revision uint64 // of the last one that is known to have been made; 0 where none is
}

func (a *ack) try(note func(a *ack)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	note(a)
}

// Acknowledge implements store.Ballot. It is one transaction: the ballot stands, the key is locked with the value. The
// ballot's standing proves that it is first, since nothing ever comes before it again.
//
// A key that exists already is replaced in one transaction, unless it has changed since it was seen, if its holder
// can't lead: if no session locks it, if the lock is of the ballot's own session, or if it is of one that had a ballot
// in this queue, which is gone since this one is first. Any other lock belongs to a program that might lead without a
// ballot, such as docker/leadership, and to a session that lives: its keys go with it. Then the error names it.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	return b.Ballot.Acknowledge(ctx, value, func(ctx context.Context) (store.Leader, error) { return b.acknowledge(ctx, value) })
}

func (b *ballot) acknowledge(ctx context.Context, value string) (store.Leader, error) {
	var stale uint64 // index of what is in the way
	b.ack.try(func(a *ack) { a.tried, stale = true, a.revision })
	for {
		if err := b.Err(); err != nil { // whoever withdraws the ballot loses it first
			return store.Leader{}, err
		}
		leader, err := b.putAck(ctx, value, stale)
		r := refusalIn(err)
		switch {
		case err == nil:
			b.ack.try(func(a *ack) { a.revision = leader.Revision })
			return leader, nil
		case r != nil && r.failed(0):
			return store.Leader{}, b.deposed(ctx, r)
		case r != nil && r.says("lock delay"): // of a session with a delay that ours does not have
			adapter.Pause(ctx)
			if ctx.Err() != nil {
				return store.Leader{}, fmt.Errorf("%w: %w: %w", store.ErrUnavailable, context.Cause(ctx), r)
			}
		case r != nil:
			e, err := b.store.readOnce(ctx, b.ackKey()) // after an odd answer the caller tries again, for as long as it leads
			if err == nil {
				err = b.mayReplace(ctx, e)
			}
			if err != nil {
				return store.Leader{}, err
			}
			stale = e.modify
		default:
			return store.Leader{}, err
		}
	}
}

// mayReplace returns nil if what is in the acknowledgement's place belongs to none that might lead.
func (b *ballot) mayReplace(ctx context.Context, e entry) error {
	if e.session == "" || e.session == b.session.id || slices.Contains(b.before, e.session) {
		return nil
	}
	dir := b.store.layout.dir(b.Election)
	pairs, err := b.store.list(ctx, dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(queue(dir, pairs), func(p *api.KVPair) bool { return p.Session == e.session }) {
		return nil
	}
	return fmt.Errorf("the key %q is locked with the value %q by %s, which has no ballot in this election: another program leads, or the key is left over",
		b.ackKey(), oneLine(e.value), b.store.holder(ctx, e.session))
}

// holder says whose a session is, as far as the token may know.
func (s *Store) holder(ctx context.Context, id string) string {
	info, err := request(ctx, s, func(ctx context.Context) (*api.SessionEntry, error) {
		info, _, err := s.client.Session().Info(id, s.readOptions(ctx))
		return info, err
	})
	if err != nil || info == nil {
		return "session " + id
	}
	return fmt.Sprintf("session %s (%q, of node %q)", id, info.Name, info.Node)
}

// deposed is called when the service says that the ballot does not stand.
func (b *ballot) deposed(ctx context.Context, r *refusal) error {
	if err := b.own.refresh(ctx); err != nil && adapter.Uncertain(err) {
		return err
	}
	if own := b.own.see(); !own.exists {
		b.Lose("its key was deleted")
	} else if !stands(b.key(), own.entry) {
		b.Lose("its key was taken by somebody else")
		b.store.orphans.Add(b.orphan())
	} else {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, r)
	}
	return b.Err()
}

func (b *ballot) ackKey() string { return b.store.layout.ack(b.Election) }

// putAck makes the acknowledgement, in the place of what has the given index where that is not 0. A request that comes
// late, behind another, finds another index or none, and changes nothing.
func (b *ballot) putAck(ctx context.Context, value string, stale uint64) (store.Leader, error) {
	key := b.ackKey()
	ops := []*api.KVTxnOp{{Verb: api.KVCheckSession, Key: b.key(), Session: b.session.id}}
	if stale == 0 {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key})
	} else {
		ops = append(ops,
			&api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: stale},
			&api.KVTxnOp{Verb: api.KVDelete, Key: key}, // and with it whoever else's lock
		)
	}
	ops = append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Value: []byte(value), Session: b.session.id})
	pairs, err := b.store.commit(ctx, ops...)
	if err != nil {
		return store.Leader{}, err
	}
	if n := len(pairs); n > 0 && pairs[n-1].Key == key && pairs[n-1].Session == b.session.id {
		return store.Leader{Value: value, Revision: pairs[n-1].ModifyIndex}, nil
	}
	return store.Leader{}, fmt.Errorf("%w: %w: the token may not read %q, it lacks key:read",
		store.ErrUnknownOutcome, store.ErrDenied, key)
}

// Withdraw implements store.Ballot.
func (b *ballot) Withdraw(ctx context.Context) error {
	b.leave() // before another candidate of the store can meet it as one that nobody has
	b.Lose("it was withdrawn")
	return b.store.orphans.Withdraw(ctx, b.Election, b.orphan())
}

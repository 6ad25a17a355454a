package consul

import (
	"context"
	"fmt"
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
// A key that is there already, be it an earlier acknowledgement of this ballot, one that outlived its ballot, or
// something else that was written there, is replaced in one transaction, unless it has changed since it was seen.
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
			e, err := b.store.read(ctx, b.ackKey())
			if err != nil {
				return store.Leader{}, err
			}
			stale = e.modify
		default:
			return store.Leader{}, err
		}
	}
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
	b.Lose("it was withdrawn")
	return b.store.orphans.Withdraw(ctx, b.Election, b.orphan())
}

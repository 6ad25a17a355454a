package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-leadership/leadership/internal/opaque"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// ack is what a ballot knows of its acknowledgement.
type ack struct {
	mu       sync.Mutex
	tried    bool    // guarded by mu, as are the others: there may be one
	revision uint64  // of the last one that is known to have been made; 0 where none is
	before   []int64 // the sessions of the ballots that were the nearest ahead
}

// follows notes the session of a ballot that is the nearest ahead.
func (a *ack) follows(session int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.before, session) {
		a.before = append(a.before, session)
	}
}

// Acknowledge implements store.Ballot. It is one transaction: the ballot exists, the acknowledgement is created. The
// ballot's existence proves that it is first, since nothing ever comes before it again. The value is written a second
// time because of that operation's answer: only SetData returns the node's Stat, and with it the revision.
//
// A node that exists already is replaced in one transaction, unless it has changed since it was seen, if its holder
// can't lead: if it belongs to no session or the ballot's own, or to one that has or had a ballot in this queue, where
// this one is first. Any other belongs to a program that might lead without a ballot, and goes with its session: the
// error names it.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	return b.Ballot.Acknowledge(ctx, value, func(ctx context.Context) (store.Leader, error) { return b.acknowledge(ctx, value) })
}

func (b *ballot) acknowledge(ctx context.Context, value string) (store.Leader, error) {
	stale := int32(-1) // version of an acknowledgement that is in the way
	for {
		b.ack.mu.Lock()
		b.ack.tried = true // before Err is asked: whoever withdraws the ballot loses it first
		b.ack.mu.Unlock()
		if err := b.Err(); err != nil {
			return store.Leader{}, err
		}
		leader, err := b.putAck(ctx, value, stale)
		switch {
		case err == nil:
			b.ack.mu.Lock()
			b.ack.revision = leader.Revision
			b.ack.mu.Unlock()
			return leader, nil
		case errors.Is(err, zk.ErrNodeExists): // it outlived its ballot, or is our own
			n, err := request(ctx, b.store, func() (node, error) {
				data, stat, err := b.store.conn.Get(b.ackPath())
				return node{data, stat}, err
			})
			if errors.Is(err, zk.ErrNoNode) {
				stale = -1
				continue
			}
			if err != nil {
				return store.Leader{}, err
			}
			if err := b.mayReplace(ctx, n); err != nil {
				return store.Leader{}, err
			}
			stale = n.stat.Version
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode): // it changed meanwhile
			stale = -1
		case errors.Is(err, zk.ErrNotEmpty): // ours is ephemeral, and never has children
			return store.Leader{}, fmt.Errorf("%s was made by somebody else and is in the way: delete it with all below it: %w",
				b.ackPath(), err)
		default:
			return store.Leader{}, err
		}
	}
}

// mayReplace returns nil if the node at the acknowledgement's place belongs to no session that might lead.
func (b *ballot) mayReplace(ctx context.Context, ack node) error {
	owner := ack.stat.EphemeralOwner
	if owner == 0 || owner == b.session.id {
		return nil
	}
	b.ack.mu.Lock()
	before := slices.Contains(b.ack.before, owner)
	b.ack.mu.Unlock()
	if before {
		return nil
	}
	nodes, err := b.store.syncedChildren(ctx, b.dir)
	if err != nil {
		return err
	}
	for _, r := range b.store.readAll(ctx, b.dir, b.store.layout.queue(nodes)) {
		switch {
		case r.err == nil && r.value.stat.EphemeralOwner == owner:
			return nil
		case r.err != nil && !errors.Is(r.err, zk.ErrNoNode):
			return r.err
		}
	}
	b.ack.mu.Lock()
	b.ack.tried, b.ack.revision = false, 0 // so there is none of ours, and this one is not removed with the ballot
	b.ack.mu.Unlock()
	return fmt.Errorf("%s with the value %q is held by session %#x, which has no ballot in this election: another program leads, or the session is left over",
		b.ackPath(), opaque.Shorten(string(ack.data)), uint64(owner))
}

func (b *ballot) ackPath() string { return b.store.layout.ackPath(b.Election) }

// putAck makes the acknowledgement, in the place of one with the given version where that is not -1. The new one gets
// another version, one for each time that it is written, so that whoever is about to remove the old one finds out.
func (b *ballot) putAck(ctx context.Context, value string, stale int32) (store.Leader, error) {
	const versions = 8
	s, data := b.store, []byte(value)
	ops := []any{&zk.CheckVersionRequest{Path: b.path(), Version: -1}}
	writes := int32(1)
	if stale >= 0 {
		ops = append(ops, &zk.DeleteRequest{Path: b.ackPath(), Version: stale})
		if stale < versions && len(value) <= store.MaxValue/versions {
			writes = stale + 1
		}
	}
	ops = append(ops, &zk.CreateRequest{Path: b.ackPath(), Data: data, Acl: s.acl, Flags: zk.FlagEphemeral})
	for range writes {
		ops = append(ops, &zk.SetDataRequest{Path: b.ackPath(), Data: data, Version: -1})
	}
	results, err := s.multi(ctx, ops)
	if len(results) == len(ops) {
		if errors.Is(results[0].Error, zk.ErrNoNode) {
			b.Lose("its node was deleted")
			return store.Leader{}, b.Err()
		}
		if stat := results[len(ops)-1].Stat; err == nil && stat != nil {
			return store.Leader{Value: value, Revision: uint64(stat.Mzxid)}, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("%w: the server's answer to the transaction has %d parts", store.ErrUnknownOutcome, len(results))
	}
	return store.Leader{}, err
}

// multi carries out a transaction.
func (s *Store) multi(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	if _, err := s.await(ctx); err != nil {
		return nil, err
	}
	type answer struct {
		results []zk.MultiResponse
		err     error
	}
	a, err := request(ctx, s, func() (answer, error) { // an answer with an error still has its parts
		results, err := s.conn.Multi(ops...)
		return answer{results, explain(err)}, nil
	})
	if err != nil {
		return nil, err
	}
	return a.results, a.err
}

// Withdraw implements store.Ballot.
func (b *ballot) Withdraw(ctx context.Context) error {
	b.Lose("it was withdrawn")
	return b.store.orphans.Withdraw(ctx, b.Election, b.orphan())
}

// orphan is what has to be removed when the ballot is given up.
func (b *ballot) orphan() orphan {
	b.ack.mu.Lock()
	defer b.ack.mu.Unlock()
	o := orphan{path: b.path(), session: b.session}
	if b.ack.tried {
		o.ack, o.revision = b.ackPath(), b.ack.revision
	}
	return o
}

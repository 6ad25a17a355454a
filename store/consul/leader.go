package consul

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// Leader implements store.Store. Where prev is nil it reads the key as it is at this moment; otherwise it joins the
// key's watch.
func (s *Store) Leader(ctx context.Context, election string, prev *store.Leader) (store.Leader, error) {
	return s.life.ReadLeader(ctx, election, func(ctx context.Context) (store.Leader, error) {
		return s.leader(ctx, election, prev)
	})
}

func (s *Store) leader(ctx context.Context, election string, prev *store.Leader) (store.Leader, error) {
	poll := s.polls.Begin()
	defer poll.End()
	key := s.layout.ack(election)
	if prev == nil {
		return adapter.Repeat(ctx, s.life, "read the leader", election, func(ctx context.Context) (store.Leader, error) {
			e, err := s.read(ctx, key)
			return leaderOf(e), err
		})
	}
	w := s.watch(key, true, nil, 0)
	defer w.leave()
	fresh := false // the state is no older than prev: it was read, or came, after the call began
	for {
		v := w.see()
		switch {
		case v.err != nil && fresh:
			return store.Leader{}, v.err
		case v.err == nil && v.known && leaderOf(v.entry) == *prev:
			poll.Wait(v.changed)
			select {
			case <-v.changed:
				fresh = true
			case <-ctx.Done():
			}
			poll.Wait()
		case v.err == nil && v.known && fresh:
			return leaderOf(v.entry), nil
		default:
			_, err := certain(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.refresh(ctx) })
			if err != nil && !adapter.Uncertain(err) {
				return store.Leader{}, err
			}
			if fresh = err == nil; !fresh {
				adapter.Pause(ctx)
			}
		}
		if ctx.Err() != nil {
			return store.Leader{}, context.Cause(ctx)
		}
	}
}

// leaderOf returns the leader that an entry tells of. A key without a lock was written by somebody who does not stand.
func leaderOf(e entry) store.Leader {
	if e.session == "" {
		return store.Leader{}
	}
	return store.Leader{Value: e.value, Revision: e.modify}
}

// Ballots implements store.Store.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if err := store.CheckElection(election); err != nil {
		return nil, err
	}
	return adapter.Repeat(ctx, s.life, "list the ballots", election, func(ctx context.Context) ([]store.Standing, error) {
		dir := s.layout.dir(election)
		pairs, err := certain(ctx, func(ctx context.Context) (api.KVPairs, error) { return s.list(ctx, dir) })
		return standings(queue(dir, pairs)), err
	})
}

// list reads all keys below dir.
func (s *Store) list(ctx context.Context, dir string) (api.KVPairs, error) {
	return request(ctx, s, func(ctx context.Context) (api.KVPairs, error) {
		pairs, meta, err := s.client.KV().List(dir, s.consistent(ctx))
		return pairs, agents(meta, err)
	})
}

func standings(queue api.KVPairs) []store.Standing {
	slices.SortFunc(queue, func(p, q *api.KVPair) int { return cmp.Compare(p.CreateIndex, q.CreateIndex) })
	var list []store.Standing
	for _, p := range queue {
		list = append(list, store.Standing{Value: string(p.Value), Token: p.CreateIndex})
	}
	return list
}

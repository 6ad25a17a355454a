package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// Leader implements store.Store.
func (s *Store) Leader(ctx context.Context, election string, prev *store.Leader) (store.Leader, error) {
	return s.life.ReadLeader(ctx, election, func(ctx context.Context) (store.Leader, error) {
		return s.leader(ctx, s.layout.ackPath(election), prev)
	})
}

func (s *Store) leader(ctx context.Context, path string, prev *store.Leader) (store.Leader, error) {
	look := s.looks.Join()
	defer s.looks.Leave(look)
	poll := s.polls.Begin()
	defer poll.End()
	for {
		_, changed := s.connection()
		leader, w, err := s.readLeader(ctx, path)
		switch {
		case err == nil && (prev == nil || leader != *prev):
			return leader, nil
		case err == nil:
			poll.Wait(w.fired, changed) // also while it looks for once: no news has come
			select {
			case <-w.fired:
			case <-changed:
			case <-look:
			case <-ctx.Done():
			}
		case adapter.Uncertain(err):
			s.pause(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return store.Leader{}, adapter.Ended(ctx, err, nil)
		case err != nil && !adapter.Uncertain(err):
			return store.Leader{}, fmt.Errorf("read %s: %w", path, err)
		}
	}
}

// readLeader returns the acknowledged leader, and the watch of the next change.
func (s *Store) readLeader(ctx context.Context, path string) (store.Leader, *watch, error) {
	if err := s.awaitSynced(ctx); err != nil {
		return store.Leader{}, nil, err
	}
	for {
		n, w, err := s.watchNode(ctx, path)
		if err == nil {
			return store.Leader{Value: string(n.data), Revision: uint64(n.stat.Mzxid)}, w, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return store.Leader{}, nil, err
		}
		w, err = s.watchAbsent(ctx, path)
		if !errors.Is(err, zk.ErrNodeExists) {
			return store.Leader{}, w, err
		}
	}
}

// awaitSynced waits until the present session has been confirmed once. The library makes sure that no later server of
// a session is behind an earlier one; from session to session only a barrier does.
func (s *Store) awaitSynced(ctx context.Context) error {
	for {
		sess, err := s.await(ctx)
		if err != nil {
			return err
		}
		select {
		case <-sess.synced:
			return nil
		case <-sess.lost:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Ballots implements store.Store. It reads every ballot, some at a time.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if err := store.CheckElection(election); err != nil {
		return nil, err
	}
	return adapter.Repeat(ctx, s.life, "list the ballots", election, func(ctx context.Context) ([]store.Standing, error) {
		return s.standing(ctx, s.layout.dir(election))
	})
}

func (s *Store) standing(ctx context.Context, dir string) ([]store.Standing, error) {
	nodes, err := s.syncedChildren(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []store.Standing
	for _, r := range s.readAll(ctx, dir, s.layout.queue(nodes)) {
		switch {
		case r.err == nil:
			list = append(list, store.Standing{Value: string(r.value.data), Token: uint64(r.value.stat.Czxid)})
		case !errors.Is(r.err, zk.ErrNoNode): // that one has gone since
			return nil, r.err
		}
	}
	return list, nil
}

// readAll reads the nodes of a queue, some at a time.
func (s *Store) readAll(ctx context.Context, dir string, queue []place) []result[node] {
	read := make([]result[node], len(queue))
	var readers sync.WaitGroup
	turns := make(chan struct{}, 32)
	for i, p := range queue {
		turns <- struct{}{}
		readers.Go(func() {
			defer func() { <-turns }()
			n, err := request(ctx, s, func() (node, error) {
				data, stat, err := s.conn.Get(dir + "/" + p.name)
				return node{data, stat}, err
			})
			read[i] = result[node]{n, err}
		})
	}
	readers.Wait()
	return read
}

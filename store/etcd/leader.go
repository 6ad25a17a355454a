package etcd

import (
	"context"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leader implements store.Store. The change itself tells who leads: nothing has to be read after it, nor before the
// next one where the watch has gone on since.
func (s *Store) Leader(ctx context.Context, election string, prev *store.Leader) (store.Leader, error) {
	return s.life.ReadLeader(ctx, election, func(ctx context.Context) (store.Leader, error) {
		return s.leader(ctx, s.layout.ack(election), prev)
	})
}

func (s *Store) leader(ctx context.Context, key string, prev *store.Leader) (store.Leader, error) {
	look := s.looks.Join()
	defer s.looks.Leave(look)
	poll := s.polls.Begin()
	defer poll.End()
	var w *watch
	defer func() { s.watches.release(w) }()
	var read int64 // the revision of the last look
	for looks := 0; ; looks++ {
		var err error
		if w != nil && w.hasFired() {
			s.watches.release(w)
			w = nil
		}
		if w == nil && prev != nil {
			w, err = s.followKey(ctx, key)
		}
		var leader store.Leader
		switch {
		case err != nil:
		case looks == 0 && w != nil && w.told != nil && w.told.Kv.ModRevision >= s.floor(): // nothing newer has been seen
			leader, read = leaderAfter(w.told), w.told.Kv.ModRevision
		default:
			leader, read, err = s.readLeader(ctx, key, w)
		}
		switch {
		case err == nil && (prev == nil || leader != *prev):
			return leader, nil
		case err == nil:
			poll.Wait(w.fired)
			select {
			case <-w.fired:
				if leader, ok := toldLeader(w, read); ok && leader != *prev {
					s.saw(0, w.event.Kv.ModRevision, false) // so that no later read is older than this
					return leader, nil
				}
			case <-look:
			case <-ctx.Done():
			}
			poll.Wait()
		case adapter.Uncertain(err):
			adapter.Pause(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return store.Leader{}, adapter.Ended(ctx, err, nil)
		case err != nil && !adapter.Uncertain(err):
			return store.Leader{}, err
		}
	}
}

// readLeader reads the acknowledged leader as it is at the revision returned, which is not before the watch was set.
func (s *Store) readLeader(ctx context.Context, key string, w *watch) (store.Leader, int64, error) {
	resp, err := s.get(ctx, key)
	switch {
	case err != nil:
		return store.Leader{}, 0, err
	case w != nil && resp.Header.Revision < w.since:
		return store.Leader{}, 0, errBehind
	}
	return leaderIn(resp.Kvs), resp.Header.Revision, nil
}

func leaderIn(kvs []*mvccpb.KeyValue) store.Leader {
	if len(kvs) == 0 {
		return store.Leader{}
	}
	return store.Leader{Value: string(kvs[0].Value), Revision: uint64(kvs[0].ModRevision)}
}

// toldLeader returns the leader that a watch has told of, if that is news to one who has read that revision: the member
// that tells may lag behind the one that was read from.
func toldLeader(w *watch, read int64) (store.Leader, bool) {
	if w.event == nil || w.event.Kv.ModRevision <= read {
		return store.Leader{}, false
	}
	return leaderAfter(w.event), true
}

func leaderAfter(e *mvccpb.Event) store.Leader {
	if e.Type == mvccpb.Event_DELETE {
		return store.Leader{}
	}
	return leaderIn([]*mvccpb.KeyValue{e.Kv})
}

// Ballots implements store.Store.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if err := store.CheckElection(election); err != nil {
		return nil, err
	}
	return adapter.Repeat(ctx, s.life, "list the ballots", election, func(ctx context.Context) ([]store.Standing, error) {
		dir := s.layout.dir(election)
		resp, err := s.get(ctx, dir, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return nil, err
		}
		var list []store.Standing
		for _, kv := range resp.Kvs {
			if isBallot(dir, kv) {
				list = append(list, store.Standing{Value: string(kv.Value), Token: uint64(kv.CreateRevision)})
			}
		}
		return list, nil
	})
}

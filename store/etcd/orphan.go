package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// orphan is a ballot that nobody wants any more and that may still stand, in the way of those behind it.
type orphan struct {
	ballot  *ballot
	unknown bool // whether it has been cast, or is going to be: a request may still be on its way
	revived bool // by a restore; so may its acknowledgement have been
}

// Over implements adapter.Orphan.
func (o orphan) Over() bool { return o.ballot.session.over() }

// abandonFor gives up the lease of an orphan that may not be removed.
func (s *Store) abandonFor(o orphan, err error) {
	s.config.Logger.Warn("a ballot can't be removed, so the session ends", "store", s.life.Name, "key", o.ballot.key, "error", err)
	s.abandon(o.ballot.session, fmt.Errorf("a ballot could not be removed: %v", err)) // in words: others were not refused
}

// remove removes an orphan with its acknowledgement, and returns nil once both are known to be gone. Where the session
// was given up before it is over, the error says why.
func (s *Store) remove(ctx context.Context, o orphan) error {
	b := o.ballot
	if b.session.over() {
		return b.session.left
	}
	var err error
	switch {
	case o.unknown:
		err = s.annul(ctx, b)
	case o.revived:
		err = s.bury(ctx, b)
	default:
		err = s.delete(ctx, b)
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.lose(b.session)
		return nil
	}
	if err == nil {
		s.disown(b.key)
	}
	return err
}

// bury deletes a revived ballot, and then the acknowledgement if it is of the same session and of no ballot that
// stands.
func (s *Store) bury(ctx context.Context, b *ballot) error {
	ack := clientv3.OpGet(s.layout.ack(b.Election))
	resp, err := s.txn(ctx, b.ifItStands(), []clientv3.Op{clientv3.OpDelete(b.key), ack}, []clientv3.Op{ack})
	if err != nil {
		return err
	}
	if resp.Succeeded {
		s.config.Logger.Warn("a ballot that was withdrawn stood again, and is removed", "store", s.life.Name, "key", b.key)
	}
	results := resp.Responses
	return s.deleteAck(ctx, b, results[len(results)-1].GetResponseRange().Kvs, 0)
}

// annul deletes a ballot that has been cast, and keeps one that has not from being cast: a request to cast it that is
// still on its way finds it void. The mark goes with the lease.
func (s *Store) annul(ctx context.Context, b *ballot) error {
	void := s.layout.void(b.Election, b.name)
	_, err := s.txn(ctx, nil, []clientv3.Op{
		clientv3.OpDelete(b.key),
		clientv3.OpPut(void, "", clientv3.WithLease(clientv3.LeaseID(b.session.id))),
	}, nil)
	return err
}

// delete deletes a ballot that was cast, and its acknowledgement, if any. What another session holds there stays.
func (s *Store) delete(ctx context.Context, b *ballot) error {
	b.ack.mu.Lock()
	tried, revision := b.ack.tried, b.ack.revision
	b.ack.mu.Unlock()
	ballot, key := clientv3.OpDelete(b.key), s.layout.ack(b.Election)
	if !tried {
		_, err := s.txn(ctx, b.ifItStands(), []clientv3.Op{ballot}, nil)
		return err
	}
	state := clientv3.Compare(clientv3.LeaseValue(key), "=", clientv3.LeaseID(b.session.id))
	then := []clientv3.Op{ballot, clientv3.OpDelete(key)}
	for {
		resp, err := s.txn(ctx, append(b.ifItStands(), state), then,
			[]clientv3.Op{clientv3.OpGet(b.key, clientv3.WithKeysOnly()), clientv3.OpGet(key)})
		if err != nil || resp.Succeeded {
			return err
		}
		own, ack := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
		if len(own) == 0 || own[0].CreateRevision != int64(b.token) {
			return s.deleteAck(ctx, b, ack, revision) // deleted by another client: others may have acknowledged
		}
		found := new(mvccpb.KeyValue) // of revision 0, if there is none
		if len(ack) > 0 {
			found = ack[0]
		}
		state = clientv3.Compare(clientv3.ModRevision(key), "=", found.ModRevision)
		if then = []clientv3.Op{ballot}; found.Lease == 0 || found.Lease == b.session.id {
			then = append(then, clientv3.OpDelete(key))
		}
	}
}

// deleteAck deletes what was found at the acknowledgement's key if it is the ballot's: if it has that revision, or, if
// the revision is not known, which is 0, if it is of the ballot's session and of no other ballot.
func (s *Store) deleteAck(ctx context.Context, b *ballot, kvs []*mvccpb.KeyValue, revision int64) error {
	if len(kvs) == 0 {
		return nil
	}
	found := kvs[0]
	own := found.ModRevision == revision
	if revision == 0 {
		// Others of this session which acknowledge later than they are asked here make it another revision.
		own = found.Lease == b.session.id && !s.othersAcknowledged(b)
	}
	if !own {
		return nil
	}
	ack := string(found.Key)
	_, err := s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(ack), "=", found.ModRevision)},
		[]clientv3.Op{clientv3.OpDelete(ack)}, nil)
	return err
}

// othersAcknowledged reports whether the acknowledgement may be that of another ballot of this session, which stands.
func (s *Store) othersAcknowledged(b *ballot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.ballots {
		if other == b || other.Election != b.Election || other.Err() != nil {
			continue
		}
		other.ack.mu.Lock()
		tried := other.ack.tried
		other.ack.mu.Unlock()
		if tried {
			return true
		}
	}
	return false
}

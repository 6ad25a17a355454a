package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// orphan is a ballot that nobody wants any more and that may still stand, in the way of those behind it.
type orphan struct {
	ballot  *ballot
	unknown bool // whether it has been cast, or is going to be: a request may still be on its way
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
	if o.unknown {
		err = s.annul(ctx, b)
	} else {
		err = s.delete(ctx, b)
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.lose(b.session)
		return nil
	}
	return err
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

// delete deletes a ballot that was cast, and its acknowledgement, if any: nobody else's is there while the ballot
// stands.
func (s *Store) delete(ctx context.Context, b *ballot) error {
	b.ack.mu.Lock()
	tried, revision := b.ack.tried, b.ack.revision
	b.ack.mu.Unlock()
	ack := s.layout.ack(b.Election)
	then := []clientv3.Op{clientv3.OpDelete(b.key)}
	if tried {
		then = append(then, clientv3.OpDelete(ack))
	}
	resp, err := s.txn(ctx, b.ifItStands(), then, []clientv3.Op{clientv3.OpGet(ack)})
	if err != nil || resp.Succeeded || !tried {
		return err
	}
	// Somebody else deleted the ballot, so that others may have acknowledged since.
	kvs := resp.Responses[0].GetResponseRange().Kvs
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
	_, err = s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(ack), "=", found.ModRevision)},
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

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-leadership/leadership/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ack is what a ballot knows of its acknowledgement.
type ack struct {
	mu        sync.Mutex
	tried     bool  // guarded by mu, as are all below: there may be one
	revision  int64 // of the last one that is known to have been made; 0 where none is
	withdrawn bool  // there will be none any more
}

// Acknowledge implements store.Ballot. It is one transaction: the ballot exists, the value is put on the same lease.
// The ballot's existence proves that it is first, since nothing ever comes before it again. Whatever is at that key is
// replaced.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	return b.Ballot.Acknowledge(ctx, value, func(ctx context.Context) (store.Leader, error) { return b.acknowledge(ctx, value) })
}

func (b *ballot) acknowledge(ctx context.Context, value string) (store.Leader, error) {
	s := b.store
	if !b.try() {
		return store.Leader{}, fmt.Errorf("%w: %s", store.ErrLost, withdrawn)
	}
	resp, err := s.txn(ctx, b.ifItStands(), []clientv3.Op{
		clientv3.OpPut(s.layout.ack(b.Election), value, clientv3.WithLease(clientv3.LeaseID(b.session.id))),
	}, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.lose(b.session)
		b.Lose("the session has ended")
		return store.Leader{}, b.Err()
	case err != nil:
		return store.Leader{}, err
	case !resp.Succeeded:
		b.Lose("its key was deleted")
		return store.Leader{}, b.Err()
	}
	b.ack.mu.Lock()
	defer b.ack.mu.Unlock()
	b.ack.revision = max(b.ack.revision, resp.Header.Revision)
	return store.Leader{Value: value, Revision: uint64(resp.Header.Revision)}, nil
}

func (b *ballot) withdrawn() bool {
	b.ack.mu.Lock()
	defer b.ack.mu.Unlock()
	return b.ack.withdrawn
}

// try says that there may be an acknowledgement from now on. It reports false where the ballot is being withdrawn, by a
// request that may not know of it.
func (b *ballot) try() bool {
	b.ack.mu.Lock()
	defer b.ack.mu.Unlock()
	b.ack.tried = b.ack.tried || !b.ack.withdrawn
	return !b.ack.withdrawn
}

// ifItStands is the condition that the ballot does.
func (b *ballot) ifItStands() []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(b.key), "=", int64(b.token))}
}

const withdrawn = "it was withdrawn"

// Withdraw implements store.Ballot. The ballot is lost when it returns, and not before its request has been sent, which
// those who wait for the successor wait for.
func (b *ballot) Withdraw(ctx context.Context) error {
	b.ack.mu.Lock()
	b.ack.withdrawn = true
	b.ack.mu.Unlock()
	defer b.Lose(withdrawn)
	return b.store.orphans.Withdraw(ctx, b.Election, orphan{ballot: b})
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-leadership/leadership/store"
	"go.etcd.io/etcd/api/v3/mvccpb"
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

// Acknowledge implements store.Ballot. It is one transaction: the ballot exists, no session holds the key, the value is
// put on the same lease. The ballot's existence proves that it is first, since nothing ever comes before it again. What
// a session holds there is replaced if that session had a ballot ahead of this one, or is the store's own. Any other
// might be that of a leader that stands in no queue of ours: Acknowledge fails and names it. Its key goes with it. A
// key without a lease has no holder, and is replaced.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	return b.Ballot.Acknowledge(ctx, value, func(ctx context.Context) (store.Leader, error) { return b.acknowledge(ctx, value) })
}

func (b *ballot) acknowledge(ctx context.Context, value string) (store.Leader, error) {
	key := b.store.layout.ack(b.Election)
	free := clientv3.Compare(clientv3.LeaseValue(key), "=", clientv3.NoLease) // or there is no key
	for {
		leader, found, err := b.put(ctx, key, value, free)
		if err != nil || found == nil {
			return leader, err
		}
		if err := b.mayReplace(ctx, found); err != nil {
			return store.Leader{}, err
		}
		free = clientv3.Compare(clientv3.ModRevision(key), "=", found.ModRevision)
	}
}

// put acknowledges on a condition. It returns what is at the key if that is not met.
func (b *ballot) put(
	ctx context.Context, key, value string, free clientv3.Cmp,
) (leader store.Leader, found *mvccpb.KeyValue, err error) {
	s := b.store
	if !b.try() {
		return leader, nil, fmt.Errorf("%w: %s", store.ErrLost, withdrawn)
	}
	resp, err := s.txn(ctx, append(b.ifItStands(), free),
		[]clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(clientv3.LeaseID(b.session.id)))},
		[]clientv3.Op{clientv3.OpGet(b.key, clientv3.WithKeysOnly()), clientv3.OpGet(key)})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.lose(b.session)
		b.Lose("the session has ended")
		return leader, nil, b.Err()
	}
	if err != nil {
		return leader, nil, err
	}
	if resp.Succeeded {
		b.ack.mu.Lock()
		defer b.ack.mu.Unlock()
		b.ack.revision = max(b.ack.revision, resp.Header.Revision)
		return store.Leader{Value: value, Revision: uint64(resp.Header.Revision)}, nil, nil
	}
	own, ack := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
	switch {
	case len(own) == 0 || own[0].CreateRevision != int64(b.token):
		b.Lose("its key was deleted")
		return leader, nil, b.Err()
	case len(ack) == 0:
		return leader, &mvccpb.KeyValue{}, nil // it went meanwhile
	}
	return leader, ack[0], nil
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

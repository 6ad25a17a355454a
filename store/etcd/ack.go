package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store/engine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Acknowledge implements engine.Session. It is one transaction: the ballot exists, no session holds the key, the value is
// put on the same lease. A ballot that was first and exists is still first, since no ballot ever comes before it.
// A key without a lease has no holder, and is replaced. What another session holds is replaced only if mayReplace allows
// that.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	key := s.driver.layout.ack(e.Election)
	free := clientv3.Compare(clientv3.LeaseValue(key), "=", clientv3.NoLease) // or there is no key
	for {
		resp, err := s.change(ctx, append(stands(e), free), clientv3.OpPut(key, value, s.onLease()))
		if err != nil {
			return 0, err
		}
		if resp.Succeeded {
			return uint64(resp.Header.Revision), nil
		}
		left, found, err := s.driver.ballotAndAck(ctx, e)
		if err != nil {
			return 0, err
		}
		if !left {
			return 0, engine.ErrGone
		}
		if err := s.mayReplace(ctx, e.Election, found); err != nil {
			return 0, err
		}
		free = clientv3.Compare(clientv3.ModRevision(key), "=", found.ModRevision)
	}
}

// mayReplace returns nil if the key of the acknowledgement has no lease, or the lease of this session, or a lease that had a
// ballot in this queue when the key was written, or has a ballot now. Any other lease belongs to a program that might lead
// without a ballot: the error names the lease. When that lease ends, the cluster removes the key.
func (s *session) mayReplace(ctx context.Context, election string, found *mvccpb.KeyValue) error {
	if found.Lease == 0 || found.Lease == s.id {
		return nil
	}
	for _, revision := range []int64{found.ModRevision, 0} { // 0: now
		stood, err := s.stood(ctx, election, found.Lease, revision)
		if err != nil || stood {
			return err
		}
	}
	return fmt.Errorf("the key %q with the value %q is held by lease %s, which has no ballot in this election: "+
		"another program leads, or the key is left over", found.Key, redact.Shorten(string(found.Value)), leaseName(found.Lease))
}

// stood reports whether a lease had a ballot in the queue at a revision. If the cluster has forgotten that
// revision, no ballot of the lease is known.
func (s *session) stood(ctx context.Context, election string, lease, revision int64) (bool, error) {
	found, err := s.driver.ballots(ctx, election, leaseName(lease), clientv3.WithRev(revision))
	if errors.Is(err, rpctypes.ErrCompacted) {
		return false, nil
	}
	return slices.ContainsFunc(found, func(kv *mvccpb.KeyValue) bool { return kv.Lease == lease }), err
}

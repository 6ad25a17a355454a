package etcd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// revisions is how far the cluster is known to have come.
type revisions struct {
	cluster   uint64    // the id of the cluster
	floor     int64     // the highest revision seen
	backSince time.Time // since when only lower ones are read; zero while they are not
}

// get reads. What it returns is not older than anything that was seen before it was sent: one member may lag behind
// another, or wake from a pause. But where all that is read for long is too old, the cluster has been restored to the
// past, and there is nothing else to go by.
func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	floor := s.floor()
	resp, err := request(ctx, s, func(ctx context.Context, kv clientv3.KV) (*clientv3.GetResponse, error) {
		return kv.Get(ctx, key, opts...)
	})
	if err != nil {
		return nil, err
	}
	if resp.Header == nil {
		return nil, errMalformed
	}
	s.sawCluster(resp.Header.ClusterId)
	if !s.saw(floor, resp.Header.Revision, false) {
		return nil, errBehind
	}
	return resp, nil
}

// sawCluster notices a cluster that was made of a snapshot: it has another id.
func (s *Store) sawCluster(id uint64) {
	s.mu.Lock()
	before := s.revisions.cluster
	s.revisions.cluster = cmp.Or(id, before) // some gateways leave it out
	s.mu.Unlock()
	if before != 0 && id != 0 && before != id {
		s.config.Logger.Warn("the cluster is another one", "store", s.life.Name, "from", before, "to", id)
		s.life.Go(s.meetAll)
	}
}

// errBehind says that a member has not come as far as another one that we have seen.
var errBehind = fmt.Errorf("%w: a member of the cluster lags behind", store.ErrUnavailable)

// txn writes: then, where the conditions hold, and otherwise what is in or else. It goes through the cluster's log, so
// that a revision which is too low is proof of a restored cluster.
func (s *Store) txn(ctx context.Context, conditions []clientv3.Cmp, then, or []clientv3.Op) (*clientv3.TxnResponse, error) {
	floor := s.floor()
	resp, err := request(ctx, s, func(ctx context.Context, kv clientv3.KV) (*clientv3.TxnResponse, error) {
		return kv.Txn(ctx).If(conditions...).Then(then...).Else(or...).Commit()
	})
	if err != nil {
		return nil, err
	}
	asked := then
	if !resp.Succeeded {
		asked = or
	}
	if resp.Header == nil || !answered(asked, resp.Responses) {
		return nil, errMalformed
	}
	s.saw(floor, resp.Header.Revision, true)
	return resp, nil
}

// errMalformed says that what has answered is no etcd, such as a gateway that leaves parts of the answer out.
var errMalformed = fmt.Errorf("%w: parts are missing in the answer", store.ErrUnknownOutcome)

// answered reports whether there is a result for each operation of a transaction.
func answered(ops []clientv3.Op, results []*pb.ResponseOp) bool {
	if len(results) != len(ops) {
		return false
	}
	for i, op := range ops {
		if op.IsGet() && results[i].GetResponseRange() == nil {
			return false
		}
	}
	return true
}

func (s *Store) floor() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revisions.floor
}

// saw reports whether a revision may be used that was seen in answer to a request; the floor is that from before it.
func (s *Store) saw(floor, revision int64, written bool) bool {
	s.mu.Lock()
	r := &s.revisions
	if revision >= floor {
		r.floor, r.backSince = max(r.floor, revision), time.Time{}
		s.mu.Unlock()
		return true
	}
	if r.backSince.IsZero() {
		r.backSince = time.Now()
	}
	// If the floor has gone back since, others have found out already.
	restored := r.floor >= floor && (written || time.Since(r.backSince) >= s.long())
	if restored {
		r.floor, r.backSince = revision, time.Time{}
	}
	s.mu.Unlock()
	if restored {
		s.config.Logger.Warn("the cluster has gone back", "store", s.life.Name, "from", floor, "to", revision)
		s.life.Go(s.meetAll)
	}
	return restored
}

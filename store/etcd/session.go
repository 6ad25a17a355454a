package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a lease of the cluster. It implements engine.Session.
//
// The cluster's leader counts the TTL from when the renewal is carried out. store.Lease counts from when the renewal was
// sent, which is earlier, so store.Lease ends first. A follower of the cluster passes renewals on to the leader, and a leader
// asks a quorum whether it still leads. A new leader of the cluster counts the TTL anew.
type session struct {
	driver  *driver
	id      int64
	cluster uint64          // the id of the cluster that granted the lease; 0 if that is not known
	history context.Context // of the cluster, from before the grant

	mu     sync.Mutex
	voided [engine.Slots]int64 // guarded by mu: the revision of each slot's mark; 0 if there is none
	single map[string]bool     // guarded by mu: the names that had no twin (peers.go)
}

// Open implements engine.Driver. A lease whose grant is not answered, or of another TTL, has no keys, and ends by itself.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	history := d.history()
	var sent store.Instant
	resp, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*pb.LeaseGrantResponse, error) {
		sent = store.Now()
		return pb.NewLeaseClient(client.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(d.config.TTL / time.Second)})
	})
	if errors.Is(err, store.ErrDenied) {
		err = engine.FailFast(err)
	}
	if err != nil {
		return nil, engine.Proof{}, err
	}
	if granted := time.Duration(resp.TTL) * time.Second; granted != d.config.TTL {
		return nil, engine.Proof{}, adapter.Refuse("ttl", d.config.TTL.String(), "the cluster's range begins at %v", granted)
	}
	return &session{
		driver: d, id: resp.ID, cluster: resp.GetHeader().GetClusterId(), history: history, single: map[string]bool{},
	}, d.proof(sent, 1), nil
}

// proof returns what a grant or a renewal proves that was sent then. The number is that of the stream of renewals; the
// grant counts as the first stream's, which is opened next.
func (d *driver) proof(sent store.Instant, stream uint64) engine.Proof {
	return engine.Proof{Sent: sent, Valid: d.config.TTL - d.config.Grace, Connection: stream}
}

// end revokes a lease with all its keys, and tries again until the cluster answers: the next leader waits for that
// (TestEndAsksAgain).
func (d *driver) end(ctx context.Context, id int64) error {
	for retries := (adapter.Retries{}); ; retries.Pause(ctx) {
		_, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*pb.LeaseRevokeResponse, error) {
			return pb.NewLeaseClient(client.ActiveConnection()).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
		})
		switch {
		case errors.Is(err, engine.ErrOver):
			return nil
		case !adapter.Uncertain(err), ctx.Err() != nil:
			return err
		}
	}
}

// ID implements engine.Session.
func (s *session) ID() string { return leaseName(s.id) }

func leaseName(id int64) string { return strconv.FormatInt(id, 16) }

// End implements engine.Session. It revokes the lease, and the keys go with it.
func (s *session) End(ctx context.Context, _ []engine.Removal) error { return s.driver.end(ctx, s.id) }

// onLease attaches a key to the lease.
func (s *session) onLease() clientv3.OpOption { return clientv3.WithLease(clientv3.LeaseID(s.id)) }

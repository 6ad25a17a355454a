package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a lease of the cluster. It implements engine.Session.
//
// The cluster's leader counts the TTL from when it carries out a renewal, which is after the renewal was sent: the
// store's lease, which counts from then, ends first. A member that is not the leader passes renewals on, and one that
// has been deposed without knowing asks a quorum first. A new leader of the cluster counts the TTL anew.
type session struct {
	driver  *driver
	id      int64
	cluster uint64 // the id of the cluster that granted the lease; 0 if that is not known

	mu     sync.Mutex
	voided [engine.Slots]int64 // guarded by mu: the revision of each slot's mark; 0 if there is none
}

// Open implements engine.Driver. It asks for a lease under an id of our own choice, so that asking again after an
// unknown outcome makes no second (TestGrantReplyLost), and Close can revoke it.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	for {
		id := d.newLease()
		sent, resp, err := d.grant(ctx, id)
		granted := time.Duration(resp.GetTTL()) * time.Second
		switch {
		case err == nil && granted == d.config.TTL:
			d.granted()
			return &session{driver: d, id: id, cluster: resp.GetHeader().GetClusterId()}, d.proof(sent, 1), nil
		case err != nil && !errors.Is(err, rpctypes.ErrLeaseExist):
			return nil, engine.Proof{}, err
		}
		d.granted()
		_ = d.revoke(ctx, id) // else it ends by itself: nothing is attached to it
		if err == nil {
			return nil, engine.Proof{}, adapter.Refuse("ttl", d.config.TTL.String(), "the cluster's range begins at %v", granted)
		}
		// An earlier request was carried out, so that the lease might end before one of now.
	}
}

// proof returns what a grant or a renewal proves that was sent then. The number is that of the stream of renewals; the
// grant counts as the first stream's, which is opened next.
func (d *driver) proof(sent store.Instant, stream uint64) engine.Proof {
	return engine.Proof{Sent: sent, Valid: d.config.TTL - d.config.Grace, Connection: stream}
}

// newLease returns the id of the lease to ask for.
func (d *driver) newLease() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == 0 {
		d.pending = rand.Int64N(1<<62) + 1
	}
	return d.pending
}

// granted says that the outcome of asking for the lease is known.
func (d *driver) granted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = 0
}

// grant sends one request for a lease, and returns when.
func (d *driver) grant(ctx context.Context, id int64) (sent store.Instant, resp *pb.LeaseGrantResponse, err error) {
	resp, err = request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*pb.LeaseGrantResponse, error) {
		sent = store.Now()
		return pb.NewLeaseClient(client.ActiveConnection()).LeaseGrant(ctx,
			&pb.LeaseGrantRequest{ID: id, TTL: int64(d.config.TTL / time.Second)})
	})
	return sent, resp, err
}

// revoke ends a lease with all its keys.
func (d *driver) revoke(ctx context.Context, id int64) error {
	_, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*pb.LeaseRevokeResponse, error) {
		return pb.NewLeaseClient(client.ActiveConnection()).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// ID implements engine.Session.
func (s *session) ID() string { return leaseName(s.id) }

func leaseName(id int64) string { return strconv.FormatInt(id, 16) }

// End implements engine.Session. It revokes the lease, and the keys go with it.
func (s *session) End(ctx context.Context, _ []engine.Removal) error { return s.driver.end(ctx, s.id) }

// onLease attaches a key to the lease.
func (s *session) onLease() clientv3.OpOption { return clientv3.WithLease(clientv3.LeaseID(s.id)) }

// change is the driver's, for keys of this lease.
func (s *session) change(ctx context.Context, conditions []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := s.driver.change(ctx, conditions, ops...)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil, fmt.Errorf("%w: %w", engine.ErrOver, err)
	}
	return resp, err
}

package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/peer"
)

// A lease is renewed a quarter of the TTL after the renewal before. Each renewal has a deadline of its own, counted from
// its sending on an open stream: a sixth of the TTL. Then the member is left, and the next attempt goes to the next
// endpoint. So a member that falls silent does not cost the lease, which is sent again after 1/4 + 1/6 of the TTL, and
// has been answered by 1/2 of the TTL if a round trip takes TTL/24. With one endpoint, and after a failure, the deadline
// is a quarter of the TTL: twice the round trip that the store promises to work with.
//
// The stream is kept while it answers: with a user, the client library authenticates for each new stream, which takes a
// round trip, and makes the server check the password. The library's own KeepAlive does not say when it sent what was
// answered.

// Keep implements engine.Session.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	var retries adapter.Retries
	for stream, limit := uint64(1), d.renewalLimit(); ; stream++ {
		answered, err := s.keepOn(ctx, stream, limit, renewed)
		limit = d.config.TTL / 4
		if answered {
			retries.Reset()
			limit = d.renewalLimit()
		}
		switch {
		case errors.Is(err, engine.ErrOver):
			return nil
		case err == errAnotherCluster:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case d.client.Ctx().Err() != nil:
			return errClientClosed
		}
		d.config.Logger.Debug("the lease was not renewed", "store", d.life.Name, "error", err)
		if store.Refused(explain(err)) { // perhaps not for ever
			adapter.PauseFor(ctx, d.renewal())
		} else {
			retries.Pause(ctx)
		}
	}
}

// renewalLimit is how long the answer to a renewal may take, if the one before was answered.
func (d *driver) renewalLimit() time.Duration {
	if d.alone() {
		return d.config.TTL / 4
	}
	return d.config.TTL / 6
}

// errAnotherCluster is why the session is given up: nothing of what it has read and written holds in another cluster.
var errAnotherCluster = errors.New("the id of the cluster has changed")

// keepOn opens a stream, and renews the lease on it until an answer is late, or the stream breaks. It reports whether any
// renewal was answered. ErrOver says that the lease is over.
func (s *session) keepOn(ctx context.Context, number uint64, limit time.Duration, renewed func(engine.Proof)) (answered bool, err error) {
	d := s.driver
	// A member that has no leader ends the stream, instead of keeping it open without answers.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	late := time.AfterFunc(d.config.TTL/4, cancel) // of the user's authentication
	defer late.Stop()
	stream, err := pb.NewLeaseClient(d.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return false, err
	}
	member, _ := peer.FromContext(stream.Context())
	for ; ; limit = d.renewalLimit() {
		sent := store.Now()
		late.Reset(limit)
		resp, err := renew(stream, s.id)
		inTime := late.Stop()
		cluster := resp.GetHeader().GetClusterId()
		switch {
		case err != nil:
			if !inTime {
				d.disconnect(member, sent.Time())
			}
			return answered, err
		case cluster != 0 && s.cluster != 0 && cluster != s.cluster: // some gateways leave it out
			return answered, errAnotherCluster
		case resp.TTL <= 0:
			return answered, engine.ErrOver
		}
		answered = true
		renewed(d.proof(sent, number))
		adapter.PauseFor(ctx, d.renewal()-time.Since(sent.Time()))
	}
}

// renew sends one renewal, and returns its answer.
func renew(stream pb.Lease_LeaseKeepAliveClient, id int64) (*pb.LeaseKeepAliveResponse, error) {
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		if _, why := stream.Recv(); why != nil {
			err = why
		}
		return nil, err
	}
	return stream.Recv()
}

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

// keeper renews a lease, one renewal at a time. A renewal is one request on a stream, and one answer. It is sent a quarter
// of the TTL after the last one that was answered. If the answer does not come within the limit (transport.go), the stream
// is given up, and the next renewal goes to another member at once.
//
// A stream is used again as long as it answers: with a user, the client library authenticates for each new stream, which
// is a write of the whole cluster. The library's KeepAlive does not say when it sent what was answered, and its
// KeepAliveOnce opens a stream for each renewal.
//
// An answer to a renewal that was sent at t gives a lease until t + TTL − grace. With several endpoints and the default
// grace, three renewals are sent before that: at TTL/4, 5/12 and 7/12 of the TTL. Two of them might have no answer: a
// member passes a renewal on to the cluster's leader, and waits for a leader that has fallen silent although there is a new
// one (TestMemberPaused).
type keeper struct {
	*session
	stream pb.Lease_LeaseKeepAliveClient // nil if there is none
	cancel context.CancelCauseFunc       // of the stream
	opened uint64                        // the number of the stream
	failed *peer.Peer                    // the member that did not answer the last renewal; nil if it was answered
}

// Keep implements engine.Session. It gives the session up when the cluster is known to have been restored to an earlier state:
// the cluster might have the lease and lack the ballot. A member answers a renewal with its own revision, which might lag
// behind. If that is lower than one seen before, the renewal proves nothing until a read has shown the cluster's revision.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.history, func() { cancel(context.Cause(s.history)) })()
	d := s.driver
	k := &keeper{session: s}
	defer k.giveUp(nil)
	var retries adapter.Retries
	for ctx.Err() == nil {
		floor := d.known().floor
		sent, resp, err := k.renew(ctx)
		if revision := resp.GetHeader().GetRevision(); err == nil && 0 < revision && revision < floor { // a gateway leaves it out
			_, err = d.now(ctx)
		}
		switch {
		case s.history.Err() != nil:
			return context.Cause(s.history)
		case ctx.Err() != nil:
			continue
		case err == nil && k.moved(resp.GetHeader().GetClusterId()):
			return errAnotherCluster
		case err == nil && resp.TTL <= 0:
			return nil
		case err == nil:
			renewed(d.proof(sent, k.opened))
			retries.Reset()
			k.failed = nil
			adapter.PauseFor(ctx, d.renewal()-time.Since(sent.Time()))
			continue
		case d.client.Ctx().Err() != nil:
			return errClientClosed
		}
		d.config.Logger.Debug("the lease was not renewed", "store", d.life.Name, "error", err)
		switch {
		case err == errLate: // the limit was the pause
		case store.Refused(explain(err)): // perhaps not for ever
			adapter.PauseFor(ctx, d.renewal())
		default:
			retries.Pause(ctx)
		}
	}
	return context.Cause(ctx)
}

// errAnotherCluster is why the session is given up: nothing of what it has read and written holds in another cluster.
var errAnotherCluster = errors.New("the id of the cluster has changed")

// moved reports whether the cluster that answered is not the one that granted the lease. A gateway leaves the id out.
func (s *session) moved(cluster uint64) bool {
	return cluster != 0 && s.cluster != 0 && cluster != s.cluster
}

// renew sends one renewal, and returns when, and its answer. If it returns an error, the stream is given up.
func (k *keeper) renew(ctx context.Context) (sent store.Instant, resp *pb.LeaseKeepAliveResponse, err error) {
	if k.stream == nil {
		if err := k.open(ctx); err != nil {
			return sent, nil, err
		}
	}
	cancel := k.cancel
	sent = store.Now()
	late := time.AfterFunc(k.driver.limit(), func() { cancel(errLate) })
	_ = k.stream.Send(&pb.LeaseKeepAliveRequest{ID: k.id}) // Recv says why a stream has broken
	resp, err = k.stream.Recv()
	inTime := late.Stop()
	if inTime && err == nil {
		return sent, resp, nil
	}
	k.failed, _ = peer.FromContext(k.stream.Context())
	if !inTime {
		err = errLate
		disconnect(k.failed, sent.Time())
	}
	k.giveUp(err)
	return sent, nil, err
}

// open opens a stream, at another member than the one that failed. With a user, that takes an answer from the cluster.
func (k *keeper) open(ctx context.Context) error {
	d := k.driver
	k.opened++ // a failed attempt counts: the service might have been restored meanwhile
	for range d.endpoints {
		k.giveUp(nil)
		// A member that has no leader ends the stream, instead of keeping it open without answers.
		streaming, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
		late := time.AfterFunc(k.driver.limit(), func() { cancel(errLate) })
		stream, err := pb.NewLeaseClient(d.client.ActiveConnection()).LeaseKeepAlive(streaming)
		if !late.Stop() {
			err = errLate
		}
		if err != nil {
			cancel(err)
			return err
		}
		k.stream, k.cancel = stream, cancel
		if member, _ := peer.FromContext(stream.Context()); !same(member, k.failed) {
			break
		}
	}
	return nil
}

// same reports whether both are known, and the same member.
func same(a, b *peer.Peer) bool {
	return a != nil && b != nil && a.Addr.String() == b.Addr.String()
}

// giveUp ends the stream, if there is one.
func (k *keeper) giveUp(why error) {
	if k.stream != nil {
		k.cancel(why)
		k.stream = nil
	}
}

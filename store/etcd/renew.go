package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/peer"
)

// keeper renews a lease. It asks a quarter of the TTL after it asked last, or when the answer to that has come if that
// is later. If an answer is late, the keeper asks on another stream too, which goes to the next endpoint, and takes the
// answer that comes first. A late answer counts for as long as the lease lasts that it gives. The client library's
// KeepAlive does not say when it sent what was answered.
//
// The stream that answered last is used again. With a user, the library authenticates for each new one, which takes a
// round trip and lets the server check the password.
//
// An answer to a request of the time t gives a lease until t + TTL − grace. So with a round trip of r the lease holds
// without a break if max(TTL/4, r) + r is less than TTL − grace: for round trips up to a third of the TTL with the
// default grace, and up to a quarter with any.
type keeper struct {
	*session
	renewed func(engine.Proof)
	ctx     context.Context
	streams sync.WaitGroup // of the renewers
	answers chan answer
	ready   *renewer   // the one that answered last; nil if there is none
	asked   []*renewer // those that have not answered yet
	opened  uint64     // how many streams there have been
}

// renewer is one stream of renewals.
type renewer struct {
	number uint64 // of the stream: 0 for the first one of the session
	cancel context.CancelFunc
	renew  chan struct{} // has room for one: the keeper asks
	asked  time.Time     // when it did; the keeper's
	member atomic.Pointer[peer.Peer]
}

// answer is what came of asking.
type answer struct {
	from    *renewer
	sent    store.Instant
	cluster uint64 // the id of the cluster; 0 if a gateway left it out
	ttl     int64
	err     error // the stream has broken
}

// mostRenewers bounds the streams that wait for an answer at the same time: a silent cluster must not collect them
// (TestStreamsOfLateRenewalsAreGivenUp).
const mostRenewers = 3

// Keep implements engine.Session.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	// A member that has no leader ends the stream, instead of keeping it open without answers.
	keeping, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	k := &keeper{session: s, renewed: renewed, ctx: keeping, answers: make(chan answer)}
	defer k.streams.Wait()
	defer cancel()
	var retries adapter.Retries
	for {
		over, err := k.renew()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == errAnotherCluster:
			return err
		case over:
			return nil
		case err == nil:
			retries.Reset()
		case d.client.Ctx().Err() != nil:
			return errClientClosed
		default:
			d.config.Logger.Debug("the lease was not renewed", "store", d.life.Name, "error", err)
			if store.Refused(explain(err)) { // perhaps not for ever
				adapter.PauseFor(ctx, d.renewal())
			} else {
				retries.Pause(ctx)
			}
		}
	}
}

// errAnotherCluster is why the session is given up: nothing of what it has read and written holds in another cluster.
var errAnotherCluster = errors.New("the id of the cluster has changed")

// renew renews the lease once, and waits until the next renewal is due. It reports whether the lease is over. Its error
// is that of the last stream if all have broken.
func (k *keeper) renew() (over bool, err error) {
	d := k.driver
	limit := min(d.timeout(d.config.TTL/10), d.config.TTL/5)
	late := time.NewTicker(limit)
	defer late.Stop()
	k.ask()
	for {
		select {
		case a := <-k.answers:
			i := slices.Index(k.asked, a.from)
			switch {
			case i < 0: // one that was given up
			case a.err == nil && a.cluster != 0 && k.cluster != 0 && a.cluster != k.cluster:
				return false, errAnotherCluster
			case a.err == nil:
				return k.take(a), nil
			case len(k.asked) == 1:
				k.asked = nil
				return false, a.err
			default:
				k.asked = slices.Delete(k.asked, i, i+1)
			}
		case <-late.C:
			k.giveUp()
			if len(k.asked) < mostRenewers {
				k.ask()
			}
		case <-k.ctx.Done():
			return false, nil
		}
	}
}

// ask asks on the stream that answered last, or on another one.
func (k *keeper) ask() {
	r := k.ready
	if r == nil {
		r = k.open()
	}
	k.ready, k.asked, r.asked = nil, append(k.asked, r), time.Now()
	r.renew <- struct{}{}
}

// take takes an answer, and reports whether the lease is over. The other streams are not needed any more.
func (k *keeper) take(a answer) (over bool) {
	d := k.driver
	for _, r := range k.asked {
		if r != a.from {
			r.cancel()
		}
	}
	k.ready, k.asked = a.from, nil
	if a.ttl <= 0 {
		return true
	}
	d.measured(time.Since(a.sent.Time()))
	k.renewed(d.proof(a.sent, a.from.number))
	adapter.PauseFor(k.ctx, d.renewal()-time.Since(a.sent.Time()))
	return false
}

// giveUp gives up the streams whose answer would not count any more, and leaves members that are silent.
func (k *keeper) giveUp() {
	d := k.driver
	silence := d.silence(d.config.TTL / 5)
	k.asked = slices.DeleteFunc(k.asked, func(r *renewer) bool {
		if time.Since(r.asked) >= silence {
			d.disconnect(r.member.Load(), r.asked)
		}
		over := time.Since(r.asked) >= d.config.TTL-d.config.Grace
		if over {
			r.cancel()
		}
		return over
	})
}

// open opens a stream.
func (k *keeper) open() *renewer {
	ctx, cancel := context.WithCancel(k.ctx)
	r := &renewer{number: k.opened, cancel: cancel, renew: make(chan struct{}, 1)}
	k.opened++
	k.streams.Go(func() {
		defer cancel()
		k.tell(ctx, answer{from: r, err: r.run(ctx, k)})
	})
	return r
}

// tell hands an answer to the keeper, unless it has given the stream up.
func (k *keeper) tell(ctx context.Context, a answer) {
	select {
	case k.answers <- a:
	case <-ctx.Done():
	}
}

// run renews each time it is asked to, until the stream breaks. It does not return nil.
func (r *renewer) run(ctx context.Context, k *keeper) error {
	stream, err := pb.NewLeaseClient(k.driver.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if p, ok := peer.FromContext(stream.Context()); ok {
		r.member.Store(p)
	}
	for {
		select {
		case <-r.renew:
		case <-ctx.Done():
			return ctx.Err()
		}
		sent := store.Now()
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: k.id}); err != nil {
			if _, why := stream.Recv(); why != nil {
				err = why
			}
			return err
		}
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		k.tell(ctx, answer{from: r, sent: sent, cluster: resp.GetHeader().GetClusterId(), ttl: resp.TTL})
	}
}

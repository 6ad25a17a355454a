package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a lease of the cluster.
//
// The cluster's leader counts the TTL from when it carries out a renewal, which is after the renewal was sent: the
// store's lease, which counts from then, ends first. A member that is not the leader passes renewals on, and one that
// has been deposed without knowing asks a quorum first. A new leader of the cluster counts the TTL anew.
type session struct {
	id    int64
	lease *store.Lease
	lost  chan struct{} // closed when the store learns that the lease is over, or gives it up
	left  error         // written before lost is closed: why it was given up; nil if the lease is known to be over
}

// over reports whether the lease has ended.
func (sess *session) over() bool {
	select {
	case <-sess.lost:
		return true
	default:
		return false
	}
}

// openSession returns the current session, and opens one if there is none.
func (s *Store) openSession(ctx context.Context) (*session, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, s.unreached(ctx)
	}
	s.mu.Lock()
	sess := s.current
	s.mu.Unlock()
	if sess != nil {
		return sess, nil
	}
	sess, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.current, s.pending = sess, 0
	s.mu.Unlock()
	if !s.life.Go(func() { s.keepAlive(sess) }) {
		return nil, store.ErrClosed
	}
	return sess, nil
}

// grant asks for a lease under an id of our own choice, so that asking again after an unknown outcome makes no second.
func (s *Store) grant(ctx context.Context) (*session, error) {
	var last error
	for {
		s.mu.Lock()
		if s.pending == 0 {
			s.pending = rand.Int64N(1<<62) + 1
		}
		id := s.pending
		s.mu.Unlock()
		sess := &session{id: id, lease: store.NewLease(), lost: make(chan struct{})}
		sent := store.Now()
		granted, err := s.ask(ctx, id)
		switch {
		case err == nil && granted != s.config.TTL:
			_ = s.revoke(ctx, id) // else it ends by itself: nothing is attached to it
			s.forget(id)
			return nil, adapter.Refuse("ttl", s.config.TTL.String(), "the cluster's range begins at %v", granted)
		case err == nil:
			sess.lease.Renew(sent, s.config.TTL-s.config.Grace)
			return sess, nil
		case errors.Is(err, rpctypes.ErrLeaseExist): // granted to an earlier request, so that it may end before: ask anew
			_ = s.revoke(ctx, id)
			s.forget(id)
		case ctx.Err() != nil || !adapter.Uncertain(err):
			return nil, because(err, last)
		default:
			last = err
			adapter.Pause(ctx)
		}
	}
}

// ask sends one request for a lease, and returns the TTL that was granted.
func (s *Store) ask(ctx context.Context, id int64) (time.Duration, error) {
	resp, err := request(ctx, s, func(ctx context.Context, _ clientv3.KV) (*pb.LeaseGrantResponse, error) {
		return pb.NewLeaseClient(s.client.ActiveConnection()).LeaseGrant(ctx,
			&pb.LeaseGrantRequest{ID: id, TTL: int64(s.config.TTL / time.Second)})
	})
	if err != nil {
		return 0, err
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// forget says that a lease need not be revoked any more.
func (s *Store) forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == id {
		s.pending = 0
	}
}

// end forgets the session: it is over. Its ballots know why before its lease ends. The caller holds mu.
func (s *Store) end(why error) {
	if s.current == nil {
		return
	}
	for b := range s.ballots {
		if b.session == s.current {
			b.LoseWith(why)
		}
	}
	s.current.lease.End()
	close(s.current.lost)
	s.current = nil
	clear(s.names)
}

// lose is called when the lease is known to be over.
func (s *Store) lose(sess *session) { s.abandon(sess, nil) }

// abandon stops renewing a lease for a reason: it is over after its TTL.
func (s *Store) abandon(sess *session, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == sess {
		sess.left = reason
		why := adapter.ErrSessionEnded
		if reason != nil {
			why = fmt.Errorf("%w: %w", store.ErrLost, reason)
		}
		s.end(why)
	}
}

// revoke ends a lease with all its keys.
func (s *Store) revoke(ctx context.Context, id int64) error {
	_, err := request(ctx, s, func(ctx context.Context, _ clientv3.KV) (*pb.LeaseRevokeResponse, error) {
		return pb.NewLeaseClient(s.client.ActiveConnection()).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// revokeAll revokes what leases there are or may be, until ctx ends: they expire by themselves then.
func (s *Store) revokeAll(ctx context.Context) {
	s.mu.Lock()
	var ids []int64
	if s.current != nil {
		ids = append(ids, s.current.id)
	}
	if s.pending != 0 {
		ids = append(ids, s.pending)
	}
	connected := s.client != nil
	s.mu.Unlock()
	for _, id := range ids {
		for connected && adapter.Uncertain(s.revoke(ctx, id)) && ctx.Err() == nil {
			adapter.Pause(ctx)
		}
	}
}

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// session is what the store knows of its session.
//
// The ensemble's leader ends a session when it has not been touched for its timeout T, rounded up to a tick. A server
// answers pings and reads by itself and reports touches to the leader only every half tick, so that one which is cut
// off goes on answering for a while. That is why the store confirms the session with a Sync, which goes through the
// leader, every T/6; and why it counts T from when the confirmation *before* the one just answered was sent: by the
// answer of this one, the leader has been told of that one's touch, as long as half a tick is no more than T/6. Where
// T is between 2 and 3 ticks, the T/12 that may be missing is taken out of the grace.
type session struct {
	id    int64
	ttl   time.Duration // as negotiated
	lease *store.Lease
	lost  chan struct{} // closed when the store learns that the session is over

	synced  chan struct{}  // closed when the first Sync has been answered: reads see all that came before
	touched *store.Instant // guarded by the store's mu: when the last confirmation was sent
}

// renewal is how often a session is confirmed.
func (s *Store) renewal() time.Duration { return s.config.TTL / 6 }

// established is called by the wire when a server has answered the handshake: id is the session's, 0 where the one we
// asked for has expired. Opening and resuming a session go through the ensemble's leader, so that this is a touch by
// itself. It must not block.
func (s *Store) established(id int64, ttl time.Duration, sent store.Instant) {
	if id == 0 {
		s.set(func() { s.end() })
		return
	}
	s.set(func() {
		s.epoch++
		s.adopt(id, ttl)
		s.current.touched = &sent
		s.current.lease.Renew(sent, ttl-s.config.Grace)
		if ttl != s.config.TTL && s.refused == nil {
			s.refused = refuse("ttl", s.config.TTL.String(), "the ensemble grants %v instead", ttl)
		}
	})
}

// adopt makes id the current session. The caller holds mu.
func (s *Store) adopt(id int64, ttl time.Duration) {
	if s.current != nil && s.current.id == id {
		return
	}
	s.end()
	s.current = &session{id: id, ttl: ttl, lease: store.NewLease(), lost: make(chan struct{}), synced: make(chan struct{})}
}

// end forgets the session: it is over. The caller holds mu.
func (s *Store) end() {
	if s.current == nil {
		return
	}
	s.current.lease.End()
	close(s.current.lost)
	s.current = nil
}

// keep confirms the session until the store is closed: at once after each connection, and then regularly.
func (s *Store) keep() {
	for {
		_, changed := s.connection()
		s.confirm()
		timer := time.NewTimer(s.renewal())
		select {
		case <-changed:
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// confirm sends one Sync and renews the lease when it is answered. A connection on which none is answered for the
// time between two is cut: the next server may answer while the lease still holds.
func (s *Store) confirm() {
	id := s.conn.SessionID()
	sent := store.Now()
	answered := async(s, func() (string, error) { return s.conn.Sync("/") })
	timer := time.NewTimer(s.renewal())
	defer timer.Stop()
	for {
		select {
		case r := <-answered:
			if r.err == nil && id != 0 && s.conn.SessionID() == id {
				s.touched(id, sent)
			}
			return
		case <-timer.C:
			s.cut()
		case <-s.ctx.Done():
			return
		}
	}
}

// touched renews the lease of the session that has answered, if it is still the current one.
func (s *Store) touched(id int64, sent store.Instant) {
	s.mu.Lock()
	if s.config.Conn != nil && (s.current == nil || s.current.id != id) {
		s.epoch++
		s.adopt(id, s.config.TTL)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	sess := s.current
	if sess == nil || sess.id != id {
		s.mu.Unlock()
		return
	}
	gap := sess.ttl / 4 // of a connection that is not ours, the touch before this is not known
	if sess.touched != nil {
		gap = sess.touched.Since(sent.Time())
	}
	sess.touched = &sent
	if s.polls.Settled() {
		s.confirmed = sent.Time()
	}
	select {
	case <-sess.synced:
	default:
		close(sess.synced)
	}
	s.mu.Unlock()
	sess.lease.Renew(sent, sess.ttl-s.config.Grace-gap)
	s.looks.next()
}

func (s *Store) setWire(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
}

// cut closes the connection, if it is the store's own; the library opens another.
func (s *Store) cut() {
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		_ = w.Conn.Close()
	}
}

// await returns the session as soon as there is one and the connection is authenticated.
func (s *Store) await(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		sess, ready, changed, refused := s.current, s.authenticated, s.changed, s.refused
		s.mu.Unlock()
		switch {
		case refused != nil:
			return nil, refused
		case sess != nil && ready:
			return sess, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// connection returns the number of the connection and a channel that is closed when there is another one.
func (s *Store) connection() (epoch uint64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch, s.changed
}

// result is what a request returned.
type result[T any] struct {
	value T
	err   error
}

// async sends a request without waiting for its answer. The client library knows no contexts: a request lasts until it
// is answered or its connection is given up, and may be carried out after its caller has gone.
func async[T any](s *Store, request func() (T, error)) <-chan result[T] {
	ch := make(chan result[T], 1)
	if !s.spawn(func() {
		value, err := request()
		ch <- result[T]{value, explain(err)}
	}) {
		ch <- result[T]{err: store.ErrClosed}
	}
	return ch
}

// receive waits for the answer of a request, or for ctx: then the outcome is unknown.
func receive[T any](ctx context.Context, ch <-chan result[T]) (T, error) {
	select {
	case r := <-ch:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

func request[T any](ctx context.Context, s *Store, f func() (T, error)) (T, error) {
	return receive(ctx, async(s, f))
}

// explain sorts the client library's errors. What the server said is certain; of everything else, raw network errors
// included, the request may have been carried out.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case errors.Is(err, zk.ErrNoServer):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrNoChildrenForEphemerals),
		errors.Is(err, zk.ErrBadArguments), errors.Is(err, zk.ErrInvalidPath):
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

// uncertain reports whether a request is worth sending again: it was not carried out, or may not have been.
func uncertain(err error) bool {
	return errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable)
}

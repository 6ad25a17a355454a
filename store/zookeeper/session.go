package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
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
	lease *store.Lease
	lost  chan struct{} // closed when the store learns that the session is over, or abandons it
	left  error         // written before lost is closed: why it was abandoned; nil where it is known to be over

	synced  chan struct{}  // closed when the first Sync has been answered: reads see all that came before
	touched *store.Instant // guarded by the store's mu: when the last confirmation was sent
}

// over reports whether the session is over.
func (sess *session) over() bool {
	select {
	case <-sess.lost:
		return true
	default:
		return false
	}
}

// renewal is how often a session is confirmed.
func (s *Store) renewal() time.Duration { return s.config.TTL / 6 }

// established is called by the wire when a server has answered the handshake: id is the session's, 0 where the one we
// asked for has expired. Opening and resuming a session go through the ensemble's leader, so that this is a touch by
// itself. It must not block.
func (s *Store) established(id int64, ttl time.Duration, sent store.Instant) {
	s.hosts.answered()
	s.set(func() {
		known := s.current != nil && s.current.id == id
		switch {
		case id == 0:
			s.end(adapter.ErrSessionEnded)
			s.abandoned = 0
		case id == s.abandoned: // it is being ended
		case ttl < s.config.TTL || ttl > s.config.TTL && !known: // more is no harm to a session that was granted less
			// The ensemble may end the session before the lease does, or already counts less than the lease does. It
			// is over for us; keep closes the connection, so that its ballots go and nobody waits for them.
			s.refused = adapter.Refuse("ttl", s.config.TTL.String(), "the ensemble grants %v instead", ttl)
			s.end(fmt.Errorf("%w: %w", store.ErrLost, s.refused))
		default:
			s.epoch++
			s.adopt(id)
			s.current.touched = &sent
			s.current.lease.Renew(sent, s.config.TTL-s.config.Grace)
		}
	})
}

// adopt makes id the current session. The caller holds mu.
func (s *Store) adopt(id int64) {
	if s.current != nil && s.current.id == id {
		return
	}
	s.end(adapter.ErrSessionEnded)
	s.current = &session{id: id, lease: store.NewLease(), lost: make(chan struct{}), synced: make(chan struct{})}
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
}

// abandon gives up a session, on a connection of the store's own, and ends it at the servers: the next handshake, which
// resumes it, is followed by the request to end it. So the next session begins when nothing is left of this one. Where
// no server can be reached it is over after its timeout. It reports false where the session is not the present one.
func (s *Store) abandon(sess *session, reason error) (abandoned bool) {
	s.set(func() {
		if abandoned = sess != nil && s.current == sess; abandoned {
			sess.left, s.abandoned = reason, sess.id
			s.end(fmt.Errorf("%w: %w", store.ErrLost, reason))
		}
	})
	if abandoned {
		s.cut()
	}
	return abandoned
}

// keep confirms the session until the store is closed: at once after each connection, and then regularly.
func (s *Store) keep() {
	for {
		_, changed := s.connection()
		if s.isRefused() {
			s.conn.Close()
			return
		}
		s.confirm()
		timer := time.NewTimer(s.renewal())
		select {
		case <-changed:
		case <-timer.C:
		case <-s.life.Background.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (s *Store) isRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused != nil && s.config.Conn == nil
}

// confirm sends one Sync and renews the lease when it is answered. A connection on which none is answered for the
// time between two is cut: the next server may answer while the lease still holds.
func (s *Store) confirm() {
	id := s.sessionID()
	sent := store.Now()
	answered := async(s, func() (string, error) { return s.conn.Sync("/") })
	timer := time.NewTimer(s.renewal())
	defer timer.Stop()
	for {
		select {
		case r := <-answered:
			if r.err == nil && id != 0 && s.sessionID() == id {
				s.touched(id, sent)
			}
			s.checkCaller(r.err, time.Since(sent.Time()))
			return
		case <-timer.C:
			s.cut()
			timer.Reset(s.renewal())
		case <-s.life.Background.Done():
			return
		}
	}
}

// checkCaller finds out that the caller has closed its connection: the library then refuses each request at once, where
// otherwise one waits for the next connection.
func (s *Store) checkCaller(err error, after time.Duration) {
	if s.config.Conn == nil {
		return
	}
	if !errors.Is(err, zk.ErrConnectionClosed) || after > 10*time.Millisecond || s.conn.State() != zk.StateDisconnected {
		s.refusals = 0
		return
	}
	if s.refusals++; s.refusals == 3 {
		s.set(func() {
			s.refused = fmt.Errorf("%w: so is the caller's connection", store.ErrClosed)
			s.end(fmt.Errorf("%w: %w", store.ErrLost, s.refused))
		})
	}
}

// sessionID returns the id of the present session, 0 where there is none. Of an own connection the wire knows it
// before the library does.
func (s *Store) sessionID() int64 {
	if s.config.Conn != nil {
		return s.conn.SessionID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.id
}

// touched renews the lease of the session that has answered, if it is still the current one.
func (s *Store) touched(id int64, sent store.Instant) {
	s.mu.Lock()
	if s.config.Conn != nil && (s.current == nil || s.current.id != id) {
		s.epoch++
		s.adopt(id)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	sess := s.current
	if sess == nil || sess.id != id {
		s.mu.Unlock()
		return
	}
	before := sess.touched
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
	if before != nil { // of a connection that is not ours, we know no touch before the first
		sess.lease.Renew(sent, s.config.TTL-s.config.Grace-before.Since(sent.Time()))
	}
	s.looks.Next()
}

// lostForLong reports whether there is no session any more, or none that can exist: it was last confirmed more than two
// TTLs ago.
func (s *Store) lostForLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current == nil || s.current.touched != nil && s.current.touched.Since(time.Now()) > 2*s.config.TTL
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
			return nil, s.unreached(ctx)
		}
	}
}

// unreached says why nothing came before ctx ended.
func (s *Store) unreached(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current != nil:
		return context.Cause(ctx)
	case s.trouble != nil:
		return fmt.Errorf("%w: no session: %w", context.Cause(ctx), s.trouble)
	}
	return fmt.Errorf("%w: no session", context.Cause(ctx))
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
	if !s.life.Go(func() {
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
	switch code, unknown := strings.CutPrefix(err.Error(), "unknown error: "); { // of the server's, to the library
	case code == "-127": // throttled
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case unknown && code != "-1" && code != "-4" && code != "-7": // of the system, the connection, or late
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

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

// session is what the store knows of its session. The store confirms it, see keeper, and takes from the confirmations
// how long it certainly lives, see touches.
type session struct {
	id    int64
	lease *store.Lease
	lost  chan struct{} // closed when the store learns that the session is over, or abandons it
	left  error         // written before lost is closed: why it was abandoned; nil if it is known to be over

	synced  chan struct{} // closed when the first barrier has been answered: reads see all that came before
	touches touches       // guarded by the store's mu, as is since
	since   store.Instant // when the present connection's handshake was sent; zero on a caller's connection
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

// established is called by the wire when a server has answered the handshake: id is the session's, 0 if the one we
// asked for has expired, and resumed says whether it is the one we asked for. It must not block.
func (s *Store) established(id int64, resumed bool, ttl time.Duration, sent store.Instant) {
	s.hosts.answered()
	s.set(func() {
		s.unanswered, s.worked = time.Time{}, true
		known := s.current != nil && s.current.id == id
		switch {
		case id == 0:
			s.end(adapter.ErrSessionEnded)
			s.abandoned = 0
		case id == s.abandoned: // it is being ended
		case ttl < s.config.TTL || ttl > s.config.TTL && !known: // more is no harm to a session that was granted less
			// The ensemble might end the session before the lease ends, or already counts a shorter TTL. The session is
			// over for this store; keep closes the connection, so that its ballots go and no other waits for them.
			s.refused = adapter.Refuse("ttl", s.config.TTL.String(), "the ensemble grants %v instead", ttl)
			s.end(fmt.Errorf("%w: %w", store.ErrLost, s.refused))
		default:
			s.epoch++
			s.adopt(id)
			s.begin(resumed, sent)
		}
	})
}

// begin takes the session into use on a connection whose handshake was sent then, and has just been answered. A quorum
// makes a new session. The ensemble's leader resumes one by itself, even if another one has been elected that it has not
// heard of: so a confirmation has to come before that counts. The caller holds mu.
func (s *Store) begin(resumed bool, sent store.Instant) {
	sess, ttl, valid := s.current, s.config.TTL, s.config.TTL-s.config.Grace
	s.ready = time.Now()
	s.trip = s.ready.Sub(sent.Time())
	s.patience = max(ttl/6, min(ttl/4, 2*s.trip))
	sess.since = sent
	sess.touches.reset(sent)
	if resumed {
		return
	}
	// The second confirmation is the first to renew the lease: see touches. If that comes too late, a lease would end
	// soon after it has begun.
	if _, holds := sess.lease.Begin(); holds || 3*s.trip+interval(ttl)+ttl/24 < valid {
		sess.lease.Renew(sent, valid)
	}
}

// giveUp abandons the session if servers have left all handshakes of more than a TTL without an answer. Each might have
// prolonged it; or the service has been set back to an earlier state, refuses who has seen a later one, and has ballots
// again that were withdrawn. It reports whether the next handshake need not insist on what was seen.
func (s *Store) giveUp() (forget bool) {
	s.mu.Lock()
	sess := s.current
	mute := !s.unanswered.IsZero() && time.Since(s.unanswered) > s.config.TTL
	s.mu.Unlock()
	if sess == nil {
		return true
	}
	return mute && s.abandon(sess, fmt.Errorf("no handshake was answered for %v", s.config.TTL))
}

// adopt makes id the current session. The caller holds mu.
func (s *Store) adopt(id int64) {
	if s.current != nil && s.current.id == id {
		return
	}
	s.end(adapter.ErrSessionEnded)
	s.current = &session{
		id: id, lease: store.NewLease(), lost: make(chan struct{}), synced: make(chan struct{}),
		touches: touches{ttl: s.config.TTL, grace: s.config.Grace},
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
}

// errAbandoned is why the connection of a session that was given up is cut.
var errAbandoned = errors.New("the session is being ended")

// abandon gives up a session, on a connection of the store's own, and ends it at the servers: the next handshake, which
// resumes it, is followed by the request to end it. So the next session begins when nothing is left of this one. Where
// no server can be reached it is over after its timeout. It reports false if the session is not the present one.
//
// The caller then cuts the connection.
func (s *Store) abandon(sess *session, reason error) (abandoned bool) {
	s.set(func() {
		if abandoned = sess != nil && s.current == sess; abandoned {
			sess.left, s.abandoned = reason, sess.id
			s.end(fmt.Errorf("%w: %w", store.ErrLost, reason))
		}
	})
	return abandoned
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
	up := s.up()
	s.mu.Lock()
	defer s.mu.Unlock()
	what := "no session"
	switch {
	case s.current != nil && up:
		return context.Cause(ctx)
	case s.current != nil:
		what = "no connection"
	}
	if s.trouble != nil {
		return fmt.Errorf("%w: %s: %w", context.Cause(ctx), what, s.trouble)
	}
	return fmt.Errorf("%w: %s", context.Cause(ctx), what)
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
	return asyncThen(s, request, func(error) {})
}

// asyncThen is async, and calls ended with the outcome before it is received, even if the request is never sent.
func asyncThen[T any](s *Store, request func() (T, error), ended func(error)) <-chan result[T] {
	ch := make(chan result[T], 1)
	end := func(r result[T]) {
		ended(r.err)
		ch <- r
	}
	if !s.life.Go(func() {
		if err := s.awaitLine(s.life.Background); err != nil {
			end(result[T]{err: err})
			return
		}
		value, err := request()
		end(result[T]{value, explain(err)})
	}) {
		end(result[T]{err: store.ErrClosed})
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

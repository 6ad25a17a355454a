package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// up reports whether the session is established on the present connection.
func (s *Store) up() bool {
	if s.config.Conn != nil {
		return s.conn.State() == zk.StateHasSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ready.IsZero() && !s.wire.gone.Load()
}

// cut closes the connection, if it is the store's own; the library opens another.
func (s *Store) cut(why error) {
	s.mu.Lock()
	w := s.wire
	if w != nil {
		s.ready, s.trouble = time.Time{}, why
	}
	s.mu.Unlock()
	if w != nil {
		_ = w.Close()
	}
}

// awaitLine waits for a connection of the store's own, for a second at most. The library would keep a request until
// there is one, however long that takes.
func (s *Store) awaitLine(ctx context.Context) error {
	if s.config.Conn != nil || s.up() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		_, changed := s.connection()
		if s.up() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.trouble == nil {
				return fmt.Errorf("%w: no connection", store.ErrUnavailable)
			}
			return fmt.Errorf("%w: no connection: %w", store.ErrUnavailable, s.trouble)
		}
	}
}

// handshakeLimit is how long a handshake may take with a server with which so many have timed out. One that has just
// started can leave one without an answer: the first limit fits the last round trip, and then it doubles. A connection
// that is refused says nothing of that.
func (s *Store) handshakeLimit(timeouts int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := max(s.config.TTL/3, leastLimit)
	if s.trip > 0 && timeouts < 10 {
		limit = min(limit, max(redial, 2*s.trip)<<timeouts)
	}
	return limit
}

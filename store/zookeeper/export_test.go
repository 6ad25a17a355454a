package zookeeper

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Mend wraps the dialer of a client library's connection that is not the store's own, so that it has no data race when
// it sets its watches again: see wire.
func Mend(dial func(network, address string, timeout time.Duration) (net.Conn, error)) func(string, string, time.Duration) (net.Conn, error) {
	last := new(atomic.Uint64)
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: conn, established: func(int64, bool, time.Duration, store.Instant) {}, timedOut: func() {}, reply: []byte{}, last: last}
		w.abandoned, w.watched = func() int64 { return 0 }, func([]watchKey, bool) {}
		return w, nil
	}
}

// NewDriver returns a driver without a store.
func NewDriver(config Config) (engine.Driver, error) { return newDriver(config) }

// Driver returns the store's driver.
func (s *Store) Driver() engine.Driver { return s.driver }

// Session returns the session of the store's connection.
func (s *Store) Session(ctx context.Context) (engine.Session, error) { return s.driver.await(ctx) }

// Watches returns how many one-shot watches the store has set.
func (s *Store) Watches() int {
	w := &s.driver.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.set)
}

// Abandon gives up the present session.
func (s *Store) Abandon(reason error) {
	d := s.driver
	d.mu.Lock()
	sess := d.current
	d.mu.Unlock()
	d.abandon(sess, reason)
	d.cut(errAbandoned)
}

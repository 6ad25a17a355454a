package zookeeper

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
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
		w := &wire{Conn: conn, established: func(int64, time.Duration, store.Instant) {}, reply: []byte{}, last: last}
		w.abandoned = func() bool { return false }
		return w, nil
	}
}

// Watches returns how many one-shot watches the store has set.
func (s *Store) Watches() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.set)
}

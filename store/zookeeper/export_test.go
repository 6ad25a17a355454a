package zookeeper

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
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
		w := &wire{Conn: conn, established: func(int64, bool, time.Duration, store.Instant) {}, timedOut: func() {}, reply: []byte{}, last: last}
		w.abandoned = func() int64 { return 0 }
		return w, nil
	}
}

// Watches returns how many one-shot watches the store has set.
func (s *Store) Watches() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.set)
}

// Abandon gives up the present session.
func (s *Store) Abandon(reason error) {
	s.mu.Lock()
	sess := s.current
	s.mu.Unlock()
	s.abandon(sess, reason)
	s.cut(errAbandoned)
}

// AcknowledgeLate is what Acknowledge goes on with when it has seen that the ballot is not lost.
func AcknowledgeLate(ctx context.Context, b store.Ballot, value string) (store.Leader, error) {
	return b.(*ballot).putAck(ctx, value, -1)
}

// Swept waits until no orphan is left.
func (s *Store) Swept(ctx context.Context) error {
	for s.orphans.Left() > 0 && ctx.Err() == nil {
		adapter.Pause(ctx)
	}
	return ctx.Err()
}

// TriedToAcknowledge is the state of a ballot whose acknowledgement had no answer.
func TriedToAcknowledge(b store.Ballot) {
	own := b.(*ballot)
	own.ack.mu.Lock()
	defer own.ack.mu.Unlock()
	own.ack.tried = true
}

package etcd_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// muter dials connections that can be made silent: nothing that the server sends over them arrives any more.
type muter struct {
	mu    sync.Mutex
	conns []*mutable
}

type mutable struct {
	net.Conn
	mu    sync.Mutex
	muted bool // guarded by mu
}

func (m *muter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &mutable{Conn: conn}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return c, nil
}

// mute makes the present connections to an address silent.
func (m *muter) mute(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if c.RemoteAddr().String() == address {
			c.mu.Lock()
			c.muted = true
			c.mu.Unlock()
		}
	}
}

func (c *mutable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		c.mu.Lock()
		muted := c.muted
		c.mu.Unlock()
		if !muted || err != nil {
			return n, err
		}
	}
}

// Whichever connection falls silent, the lease holds and a waiter learns that it leads: the streams move to another
// one.
func TestConnectionFallsSilent(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // a busy machine takes a second for a new connection
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, Extra: fast})
	for _, address := range server.Addrs() {
		t.Run("one of three", func(t *testing.T) {
			t.Parallel()
			var lines muter
			election := newElection()
			first := castFirst(t, open(t, etcd.Config{Endpoints: server.Addrs(), TTL: long}), election, "first")
			st := open(t, etcd.Config{Endpoints: server.Addrs(), Dial: lines.Dial, TTL: ttl})
			own := castFirst(t, st, newElection(), "own")
			waiter := cast(t, st, election, "waiter")
			waiting(t, waiter)
			span, ok := own.Lease().Span()
			require.True(t, ok)
			lines.mute(address)
			require.NoError(t, first.Withdraw(soon(t)))
			require.NoError(t, waiter.Wait(soon(t)))
			start := time.Now()
			eventually(t, func() bool {
				require.True(t, own.Lease().Holds(span))
				return time.Since(start) > ttl
			}, "the end of a TTL")
		})
	}
	t.Run("the only one", func(t *testing.T) {
		t.Parallel()
		var lines muter
		election := newElection()
		address := server.Addrs()[0]
		b := castFirst(t, open(t, etcd.Config{Endpoints: []string{address}, Dial: lines.Dial, TTL: ttl}), election, "own")
		span, ok := b.Lease().Span()
		require.True(t, ok)
		for range 2 {
			renewal := b.Lease().Last()
			lines.mute(address)
			eventually(t, func() bool {
				require.True(t, b.Lease().Holds(span))
				return b.Lease().Last().Sent.Sub(renewal.Sent) > ttl/2
			}, "renewals over another connection")
		}
		require.NoError(t, b.Err())
	})
}

package etcd_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

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

// The only connection falls silent: the lease holds, since renewals go on over another one.
func TestConnectionFallsSilent(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // a busy machine takes a second for a new connection
	address := sharedServer(t).Addrs()[0]
	var lines muter
	b := castFirst(t, open(t, etcd.Config{Endpoints: []string{address}, Dial: lines.Dial, TTL: ttl}), newElection(), "own")
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
}

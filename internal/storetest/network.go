package storetest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// SilentServer returns the address of a server that takes connections and never says a word on them.
func SilentServer(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Connections counts those that its Dial makes.
type Connections struct {
	mu         sync.Mutex
	open, most int // guarded by mu
}

// Dial connects as net.Dialer does.
func (c *Connections) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.most = max(c.most, c.open)
	return &connection{Conn: conn, closed: sync.OnceFunc(c.closed)}, nil
}

func (c *Connections) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

// Open returns how many are open.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Most returns how many have been open at once.
func (c *Connections) Most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

type connection struct {
	net.Conn
	closed func()
}

// Close closes the connection. It is no longer counted when Close returns.
func (c *connection) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

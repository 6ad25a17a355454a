package storetest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// SilentServer returns the address of a server that accepts connections and never sends a byte.
func SilentServer(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// At makes a connection one to an address.
func At(conn net.Conn, address string) net.Conn {
	return connectionTo{conn, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
}

type connectionTo struct {
	net.Conn
	address net.Addr
}

func (c connectionTo) RemoteAddr() net.Addr { return c.address }

// Hanging returns a connection to a server that accepts it and never sends a byte.
func Hanging(address string) net.Conn {
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	return At(client, address)
}

// Connections counts those that its Dial makes.
type Connections struct {
	mu                  sync.Mutex
	open, closing, most int // guarded by mu
}

// Dial connects as net.Dialer does.
func (c *Connections) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.add(1, 0)
	return &connection{
		Conn: conn, closing: sync.OnceFunc(func() { c.add(0, 1) }), closed: sync.OnceFunc(func() { c.add(-1, -1) }),
	}, nil
}

func (c *Connections) add(open, closing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += open
	c.closing += closing
	c.most = max(c.most, c.open-c.closing)
}

// Open returns how many are open: those whose Close has not returned.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Most returns how many have been open at once, without those whose Close had been called.
func (c *Connections) Most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

type connection struct {
	net.Conn
	closing, closed func()
}

func (c *connection) Close() error {
	c.closing()
	defer c.closed()
	return c.Conn.Close()
}

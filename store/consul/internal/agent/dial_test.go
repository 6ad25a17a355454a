package agent

import (
	"context"
	"net"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A connection that is made after the store was closed is closed without the dialer's lock, since closing TLS might
// block.
func TestDialAfterClose(t *testing.T) {
	d := &dialer{addresses: []string{"agent"}}
	closed := false
	d.dial = func(context.Context, string, string) (net.Conn, error) {
		conn, agent := net.Pipe()
		t.Cleanup(func() { _ = agent.Close() })
		return closing{conn, func() {
			closed = true
			require.True(t, d.mu.TryLock(), "the dialer is locked")
			d.mu.Unlock()
		}}, nil
	}
	_, err := d.open(context.Background(), "tcp", "")
	require.ErrorIs(t, err, store.ErrClosed)
	require.True(t, closed)
}

// closing calls a function when it is closed.
type closing struct {
	net.Conn
	closes func()
}

// Close implements net.Conn.
func (c closing) Close() error {
	c.closes()
	return c.Conn.Close()
}

package agent

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/stretchr/testify/require"
)

// closing is a connection that takes a second to be closed.
type closing struct {
	net.Conn
	closed atomic.Bool
}

func (c *closing) Close() error {
	time.Sleep(time.Second)
	c.closed.Store(true)
	return c.Conn.Close()
}

// A request was given up, and its dial goes on. The dial succeeds in the moment in which the client is closed. When Close
// returns, the connection is closed.
func TestCloseWaitsForDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := adapter.NewLifecycle("consul", false, "")
		defer life.Stop()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		conn := &closing{Conn: ours}
		c, err := New(life, Config{
			Addresses: []string{"a"}, TTL: time.Hour, Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return conn, nil },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Get(ctx, "key")
		require.Error(t, err)
		c.Close()
		require.True(t, conn.closed.Load())
	})
}

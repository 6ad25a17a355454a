package consul

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// No session is opened for a caller that has left.
func TestOpenForACallerThatHasGone(t *testing.T) {
	d, err := newDriver(Config{
		Addresses: []string{"127.0.0.1:1"}, TTL: time.Second,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			t.Error("an agent is dialled")
			return nil, net.ErrClosed
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = d.Open(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, d.Close())
}

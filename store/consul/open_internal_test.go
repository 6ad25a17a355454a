package consul

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A session that is not opened, since its caller has gone, is not waited for by Close.
func TestOpenForACallerThatHasGone(t *testing.T) {
	d, err := newDriver(Config{Addresses: []string{"127.0.0.1:1"}, TTL: time.Second})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 { // what is ready in Open is taken at random
		_, _, err = d.Open(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, d.opening, "a session is being opened")
	}
	require.NoError(t, d.Close())
}

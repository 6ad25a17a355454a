package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/stretchr/testify/require"
)

// The servers are tried in turn, the first round without a pause, and then with pauses that grow until a connection has
// worked for a while. The client itself never waits, until it is closed.
func TestServersAreTriedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hosts
		servers := []string{"a", "b"}
		require.NoError(t, h.Init(servers))
		try := func() (failed int, wait time.Duration) {
			_, waits := h.Next()
			require.False(t, waits)
			failed, wait = h.round()
			time.Sleep(wait)
			return failed, wait
		}
		pauses := []time.Duration{0, 0, 50, 100, 200, 250, 250, 250}
		for range 2 {
			for i, pause := range pauses {
				require.Equal(t, servers[i%2], servers[h.next])
				failed, wait := try()
				require.Equal(t, i/2, failed)
				require.Equal(t, pause*time.Millisecond, wait)
			}
			h.answered(false)
			time.Sleep(100 * time.Millisecond)
			_, wait := try()
			require.Equal(t, 150*time.Millisecond, wait, "it did not work for long")
			h.answered(true)
			_, wait = try()
			require.Zero(t, wait, "the session has expired")
			h.answered(false)
			time.Sleep(steady)
		}
		h.closed.Store(true)
		_, waits := h.Next()
		require.True(t, waits, "only then the client sees that it is closed")
	})
}

// A server that may be gone holds up the others for a second in the first round, and a TTL/4 after that. Servers that
// refuse a connection at once are not asked again at once.
func TestDialLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		refusing := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
		d := &driver{lifecycle: adapter.NewLifecycle("zookeeper", false, "")}
		d.config.TTL, d.config.Dial = 20*time.Second, silent
		defer d.lifecycle.Stop()
		require.NoError(t, d.hosts.Init([]string{"a", "b"}))
		dial := func() time.Duration {
			began := time.Now()
			server, _ := d.hosts.Next()
			_, err := d.dial("tcp", server, 0)
			require.Error(t, err)
			return time.Since(began)
		}
		for _, want := range []time.Duration{1, 1, 5, 5, 5, 5} {
			require.Equal(t, want*time.Second, dial())
		}
		d.hosts.answered(false)
		time.Sleep(steady)
		d.config.Dial = refusing
		for _, want := range []time.Duration{0, 0, 50, 100, 200, 250} {
			require.Equal(t, want*time.Millisecond, dial())
		}
	})
}

// Close does not wait for the answer to a handshake.
func TestCloseDuringAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 1)
		silent := func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer func() { _ = server.Close() }()
				_, _ = server.Read(make([]byte, 1))
				asked <- struct{}{}
				_, _ = io.Copy(io.Discard, server)
			}()
			return client, nil
		}
		d, err := newDriver(Config{Servers: []string{"127.0.0.1"}, TTL: time.Minute, Dial: silent})
		require.NoError(t, err)
		<-asked
		began := time.Now()
		require.NoError(t, d.Close())
		require.Less(t, time.Since(began), d.handshakeLimit()/4)
	})
}

package kvwatch

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// While the agent refuses connections, watches without queries of their own are verified about once a second, together.
func TestSharedWatchesInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		life := adapter.NewLifecycle("consul", false, "")
		client, err := agent.New(life, agent.Config{
			Addresses: []string{"127.0.0.1:1"}, TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
			Dialer: adapter.NewDialer(func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}, nil),
		})
		require.NoError(t, err)
		all := New(client, "p/", func(string, agent.Entry) bool { return true }, func() {})
		all.mu.Lock()
		for _, key := range []string{"p/a", "p/b", "p/c"} {
			all.byKey[key] = &watch{Watcher: all, key: key, dir: "p/", known: true, index: 1, users: map[*user]struct{}{{}: {}}}
			all.byKey[key].share()
		}
		all.mu.Unlock()
		time.Sleep(time.Minute)
		require.Less(t, dials.Load(), int64(180))
		life.Stop()
		life.Wait()
		client.Close()
	})
}

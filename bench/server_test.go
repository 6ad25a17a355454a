package bench

import (
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// ttl is that of all sessions where a benchmark does not say otherwise: the library's default.
const ttl = 10 * time.Second

// watchdog is how long anything may take before a benchmark fails.
const watchdog = time.Minute

func startZooKeeper(b *testing.B) string {
	b.Helper()
	return testserver.NewZooKeeper(b, testserver.ZooKeeperConfig{TickTime: tick}).Addrs()[0]
}

// tick is the server's unit of time.
const tick = 500 * time.Millisecond

// openStore opens a store with a session of its own, which ends with the benchmark.
func openStore(b *testing.B, server string, ttl time.Duration, w *wire) store.Store {
	b.Helper()
	st, err := zookeeper.Open(zookeeper.Config{Servers: []string{server}, TTL: ttl, Dial: w.dial})
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	return st
}

// connect returns a session of the plain client, which ends with the benchmark.
func connect(b *testing.B, server string, w *wire) *zk.Conn {
	b.Helper()
	conn, events, err := zk.Connect([]string{server}, ttl,
		zk.WithDialer(w.dialPlain), zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(b, err)
	b.Cleanup(func() {
		conn.Close()
		for range events { // until nothing of it is left
		}
	})
	_, _, err = conn.Exists("/") // waits for the session
	require.NoError(b, err)
	return conn
}

// world lets anybody do anything, as does a store without a user.
var world = zk.WorldACL(zk.PermAll)

// makeDir creates a node for a floor to happen below.
func makeDir(b *testing.B, conn *zk.Conn, path string) string {
	b.Helper()
	_, err := conn.Create(path, nil, zk.FlagPersistent, world)
	require.NoError(b, err)
	return path
}

// receive waits for a value, and fails the benchmark where none comes.
func receive[T any](b *testing.B, ch <-chan T, what string) T {
	b.Helper()
	timer := time.NewTimer(watchdog)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		b.Fatalf("waited %v for %s", watchdog, what)
		panic("unreachable")
	}
}

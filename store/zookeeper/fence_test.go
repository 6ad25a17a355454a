package zookeeper_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Writes of leaders to the ensemble that elects them. The server grants the late client a session that outlasts the time
// for which the line holds its requests back.
func TestFence(t *testing.T) {
	server := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{
		Extra: map[string]string{"forceSync": "no", "maxSessionTimeout": "60000"},
	})
	t.Run("WritesAreFenced", func(t *testing.T) { fenced(t, server).WritesAreFenced(t) })
	t.Run("LateWritesAreRefused", func(t *testing.T) { fenced(t, server).LateWritesAreRefused(t) })
}

func fenced(t *testing.T, server *testserver.ZooKeeper) storetest.Fenced {
	const timeout = time.Minute
	conn, line := connectRaw(t, timeout, server.Addrs()...), &storetest.Line{}
	late := connectOver(t, line.Dial, timeout, server.Addrs()...)
	return storetest.Fenced{
		Open: func(dial func(context.Context, string, string) (net.Conn, error)) store.Store {
			return open(t, zookeeper.Config{Servers: server.Addrs(), TTL: middling, Dial: dial})
		},
		Place: func(election string) string {
			path := "/data of " + election
			makePath(t, conn, path)
			return path
		},
		Write: func(_ context.Context, b store.Ballot, path, value string) error { return save(conn, b, path, value) },
		Late:  func(_ context.Context, b store.Ballot, path, value string) error { return save(late, b, path, value) },
		Line:  line,
		Read: func(path string) string {
			data, _, err := conn.Get(path)
			require.NoError(t, err)
			return string(data)
		},
		Remove: func(b store.Ballot) {
			stands, err := zookeeper.Fence(b)
			require.NoError(t, err)
			require.NoError(t, conn.Delete(stands.Path, -1))
		},
	}
}

// The program's client must be allowed to read the ballot's node. By default only the user of the store is.
func TestFenceNeedsPermission(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, "/data of "+election)
	servers := sharedServer(t).Addrs()
	b := castFirst(t, open(t, zookeeper.Config{Servers: servers, TTL: long, User: "u", Password: "p"}), election, "own")
	require.ErrorIs(t, save(conn, b, "/data of "+election, "value"), zk.ErrNoAuth)
	require.NoError(t, conn.AddAuth("digest", []byte("u:p")))
	require.NoError(t, save(conn, b, "/data of "+election, "value"))
}

package zookeeper_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Writes of leaders to the ensemble that elects them.
func TestFence(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(storetest.Fenced, *testing.T){
		"WritesAreFenced": storetest.Fenced.WritesAreFenced, "LateWritesAreRefused": storetest.Fenced.LateWritesAreRefused,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(fenced(t), t)
		})
	}
}

// fenced is the shared server. The session of the late client outlasts the time for which the line holds its requests back.
func fenced(t *testing.T) storetest.Fenced {
	const timeout = time.Minute
	servers, line := sharedServer(t).Addrs(), &storetest.Line{}
	conn, late := connectRaw(t, timeout, servers...), connectOver(t, line.Dial, timeout, servers...)
	return storetest.Fenced{
		Open: func(dial func(context.Context, string, string) (net.Conn, error)) store.Store {
			return open(t, zookeeper.Config{TTL: middling, Dial: dial})
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
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, "/data of "+election)
	b := castFirst(t, open(t, zookeeper.Config{User: "u", Password: "p", Root: "/of the user of the fence"}), election, "own")
	require.ErrorIs(t, save(conn, b, "/data of "+election, "value"), zk.ErrNoAuth)
	require.NoError(t, conn.AddAuth("digest", []byte("u:p")))
	require.NoError(t, save(conn, b, "/data of "+election, "value"))
}

package zookeeper_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// silent is a logger for the client library.
type silent struct{}

func (silent) Printf(string, ...any) {}

// connectRaw opens a connection of the client library's own, for what another program or an operator does.
func connectRaw(t *testing.T, timeout time.Duration, servers ...string) *zk.Conn {
	t.Helper()
	return connectOver(t, (&net.Dialer{}).DialContext, timeout, servers...)
}

// connectOver is connectRaw over a line.
func connectOver(t *testing.T, dial conformance.DialFunc, timeout time.Duration, servers ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(servers, timeout, zk.WithLogger(silent{}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return dial(ctx, network, address)
		}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the library has ended
		}
	})
	eventually(t, func() bool { return conn.State() == zk.StateHasSession }, "a session")
	return conn
}

// operator returns a connection to the shared server, with which a test reads and changes nodes.
func operator(t *testing.T) *zk.Conn {
	t.Helper()
	return connectRaw(t, long, sharedServer(t).Addrs()...)
}

var world = zk.WorldACL(zk.PermAll)

// makePath makes a persistent node and those above it.
func makePath(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if _, err := conn.Create(path[:i], nil, zk.FlagPersistent, world); !errors.Is(err, zk.ErrNodeExists) {
			require.NoError(t, err)
		}
	}
}

// list returns the names of a node's children, and none if the node does not exist.
func list(t *testing.T, conn *zk.Conn, path string) []string {
	t.Helper()
	names, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	require.NoError(t, err)
	return names
}

// find returns the path of the ballot with the value.
func find(t *testing.T, conn *zk.Conn, election, value string) string {
	t.Helper()
	for _, name := range list(t, conn, dir(election)) {
		path := dir(election) + "/" + name
		data, _, err := conn.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		require.NoError(t, err)
		if string(data) == value && name != "leader_ack" {
			return path
		}
	}
	require.FailNow(t, "no ballot", "election %q, value %q", election, value)
	return ""
}

// removeAll removes a node with all below it, as `deleteall` of ZooKeeper's own command line does.
func removeAll(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	for ctx := soon(t); ctx.Err() == nil; {
		for _, name := range list(t, conn, path) {
			removeAll(t, conn, path+"/"+name)
		}
		err := conn.Delete(path, -1)
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			return
		}
		require.ErrorIs(t, err, zk.ErrNotEmpty, "another client made a new one meanwhile")
	}
	require.NoError(t, context.DeadlineExceeded)
}

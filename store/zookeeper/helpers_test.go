package zookeeper_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

const (
	// ttl is the session timeout of tests that wait for the end of a session which may end at any time.
	ttl = 2 * time.Second
	// middling is that of tests that wait for a part of it, or for the end of a session which must not end before.
	middling = 10 * time.Second
	// long is that of all other tests: a machine that stands still for seconds costs no session.
	long = 30 * time.Second
)

// The names under which these tests use what package storetest has for the tests of all stores.
var (
	newElection    = storetest.NewElection
	soon           = storetest.Soon
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	castFirst      = storetest.CastFirst
	acknowledge    = storetest.Acknowledge
	waiting        = storetest.Waiting
	lost           = storetest.Lost
	values         = storetest.Values
	contend        = storetest.Contend
	oneLeader      = storetest.OneLeader
	requireInvalid = storetest.RequireInvalid
	openURL        = storetest.OpenURL
	confirmedAgain = storetest.ConfirmedAgain
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// open opens a store that the end of the test closes. By default it is one of the shared server, and its TTL is long.
func open(t *testing.T, config zookeeper.Config) *zookeeper.Store {
	t.Helper()
	if config.Servers == nil {
		config.Servers = sharedServer(t).Addrs()
	}
	config.TTL = cmp.Or(config.TTL, long)
	st, err := zookeeper.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// openTapped opens a store on the shared server whose line is tapped, with a TTL that outlasts the test: what goes
// does not go with the session.
func openTapped(t *testing.T) (*zookeeper.Store, *tap) {
	t.Helper()
	tp := newTap(t, nil)
	return open(t, zookeeper.Config{Dial: tp.Dial}), tp
}

// newFollower returns the channel of a follower that lives as long as the test.
func newFollower(t *testing.T, st *zookeeper.Store, election string) <-chan leadership.Leader {
	t.Helper()
	f, err := leadership.NewFollower(st, election, nil)
	require.NoError(t, err)
	t.Cleanup(f.Stop)
	seen := make(chan leadership.Leader, 100)
	go func() {
		for leader := range f.Changes(context.Background()) {
			seen <- leader
		}
	}()
	return seen
}

// enter makes an entry in the store's session, without a ballot.
func enter(t *testing.T, st *zookeeper.Store, election, value string) (engine.Session, engine.Entry) {
	t.Helper()
	session, err := st.Session(soon(t))
	require.NoError(t, err)
	e, err := session.Enter(soon(t), election, engine.Nonce{Name: rand.Text()}, value)
	require.NoError(t, err)
	require.Zero(t, e.Place)
	return session, e
}

// dir is where an election's nodes are, with the default settings.
func dir(election string) string {
	return "/_zkelection/" + strings.ReplaceAll(election, "/", "__")
}

// operator returns a connection to the shared server, with which a test reads and changes nodes.
func operator(t *testing.T) *zk.Conn {
	t.Helper()
	return connectRaw(t, long, sharedServer(t).Addrs()...)
}

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

// silent is a logger for the client library.
type silent struct{}

func (silent) Printf(string, ...any) {}

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

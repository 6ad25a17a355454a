package etcd_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// ttl is the TTL of most tests: the shortest that the servers grant.
	ttl = 2 * time.Second
	// middling is one for tests in which a session has to outlast some renewals that fail.
	middling = 4 * time.Second
	// long is one that a test uses where losing the session to a slow machine would spoil it.
	long = 20 * time.Second
)

// The names under which these tests use what package storetest has for the tests of all stores.
type contender = storetest.Contender

var (
	newElection    = storetest.NewElection
	soon           = storetest.Soon
	within         = storetest.Within
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	castFirst      = storetest.CastFirst
	acknowledge    = storetest.Acknowledge
	waiting        = storetest.Waiting
	lost           = storetest.Lost
	values         = storetest.Values
	contend        = storetest.Contend
	oneLeader      = storetest.OneLeader
	leaderAmong    = storetest.LeaderAmong
	requireInvalid = storetest.RequireInvalid
	openURL        = storetest.OpenURL
	confirmed      = storetest.Confirmed
	confirmedAgain = storetest.ConfirmedAgain
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// ackKey is where an election's acknowledged value is, with the default settings.
func ackKey(election string) string { return "leadership/" + election }

// ballotKeys is what the keys of its ballots begin with.
func ballotKeys(election string) string { return ackKey(election) + "/_ballots/" }

// open opens a store that the end of the test closes. The defaults are ttl, and the shared server.
func open(t *testing.T, config etcd.Config) *etcd.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = ttl
	}
	if config.Client == nil && config.Endpoints == nil {
		config.Endpoints = sharedServer(t).Addrs()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	st, err := etcd.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// operator returns a client with which a test reads and changes keys. The default endpoint is the shared server.
func operator(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = sharedServer(t).Addrs()
	}
	return connect(t, clientv3.Config{Endpoints: endpoints})
}

func connect(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Logger, config.DialTimeout = zap.NewNop(), storetest.Watchdog
	client, err := clientv3.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// keys lists the keys with a prefix in the order of their creation.
func keys(t *testing.T, client *clientv3.Client, prefix string) []string {
	t.Helper()
	resp, err := client.Get(soon(t), prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	list := []string{}
	for _, kv := range resp.Kvs {
		list = append(list, string(kv.Key))
	}
	return list
}

// ballotOf returns the key of the ballot with the value, and its lease.
func ballotOf(t *testing.T, client *clientv3.Client, election, value string) (key string, lease clientv3.LeaseID) {
	t.Helper()
	resp, err := client.Get(soon(t), ballotKeys(election), clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		if string(kv.Value) == value {
			return string(kv.Key), clientv3.LeaseID(kv.Lease)
		}
	}
	require.FailNow(t, "no ballot of "+value)
	panic("unreachable")
}

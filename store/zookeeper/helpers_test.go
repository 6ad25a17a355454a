package zookeeper_test

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
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
	confirmedAgain = storetest.ConfirmedAgain
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// dir is where an election's nodes are, with the default settings.
func dir(election string) string {
	return "/_zkelection/" + strings.ReplaceAll(election, "/", "__")
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

// stepDown waits until no contender leads, which is so before a session could end. It reads the clock before each
// check, so a pause of the test does not matter.
func stepDown(t *testing.T, sessionEnds time.Time, contenders ...*contender) {
	t.Helper()
	eventually(t, func() bool {
		now := time.Now()
		if !slices.ContainsFunc(contenders, func(c *contender) bool { return c.IsLeader() }) {
			return true
		}
		require.Less(t, now, sessionEnds, "one leads when its session might have ended")
		return false
	}, "the leader steps down")
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

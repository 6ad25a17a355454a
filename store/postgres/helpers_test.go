package postgres_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

const (
	// ttl is the TTL of most tests.
	ttl = 3 * time.Second
	// long is one that a test uses where losing the session to a slow machine would spoil it.
	long = 20 * time.Second
)

// The names under which these tests use what package storetest has for the tests of all stores.
var (
	newElection    = storetest.NewElection
	soon           = storetest.Soon
	within         = storetest.Within
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	castFirst      = storetest.CastFirst
	acknowledge    = storetest.Acknowledge
	lost           = storetest.Lost
	values         = storetest.Values
	contend        = storetest.Contend
	oneLeader      = storetest.OneLeader
	leaderAmong    = storetest.LeaderAmong
	requireInvalid = storetest.RequireInvalid
	renewed        = storetest.Renewed
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// open opens a store that the end of the test closes. The defaults are ttl, the superuser and the shared server.
func open(t testing.TB, config postgres.Config) *postgres.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = ttl
	}
	if config.Addresses == nil {
		config.Addresses = sharedServer(t).Addrs()
	}
	if config.User == "" {
		config.User = testserver.PostgresUser
	}
	if config.Database == "" {
		config.Database = "postgres"
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	st, err := postgres.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// requireLeader waits until a store has been told that an election has a leader with this value.
func requireLeader(t testing.TB, st store.Store, election, value string) store.Leader {
	t.Helper()
	for leader, last := (store.Leader{}), (*store.Leader)(nil); ; last = &leader {
		var err error
		leader, err = storetest.Leader(soon(t), st, election, last)
		if errors.Is(err, store.ErrUnavailable) {
			continue
		}
		require.NoError(t, err)
		if leader.Value == value {
			return leader
		}
	}
}

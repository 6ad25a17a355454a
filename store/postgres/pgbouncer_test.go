package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// Through PgBouncer in the mode session candidates lead and followers are told.
func TestPgbouncerSession(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	bouncer := testserver.NewPgbouncer(t, server, testserver.SessionPooling)
	list := three(t, postgres.Config{Addresses: bouncer.Addrs()})
	leader := leaderAmong(t, list...)
	requireLeader(t, open(t, postgres.Config{Addresses: bouncer.Addrs()}), "a", leader.Value)
	leader.End()
	requireLeader(t, open(t, postgres.Config{Addresses: server.Addrs()}), "a", leaderAmong(t, list...).Value)
}

// PgBouncer hands on connections on which another process has prepared its statement.
func TestPgbouncerWithoutReset(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	bouncer := testserver.NewPgbouncer(t, server, testserver.SessionPoolingWithoutReset)
	config := postgres.Config{Addresses: bouncer.Addrs()}
	acknowledge(t, castFirst(t, open(t, config), "a", "own"), "own")
	for range 10 {
		st := open(t, config)
		requireLeader(t, st, "a", "own")
		require.NoError(t, st.Close())
	}
}

// Through PgBouncer in the mode transaction candidates and followers are refused, in words that help.
func TestPgbouncerTransaction(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	castFirst(t, open(t, postgres.Config{Addresses: server.Addrs()}), "a", "so that there is a schema")
	bouncer := testserver.NewPgbouncer(t, server, testserver.TransactionPooling)
	config := postgres.Config{Addresses: bouncer.Addrs()}
	_, castErr := open(t, config).Cast(soon(t), "a", "own")
	_, readErr := storetest.Leader(soon(t), open(t, config), "a", nil)
	_, listErr := open(t, config).Ballots(soon(t), "a")
	for _, err := range []error{castErr, readErr, listErr} {
		requireInvalid(t, err, "addresses", "pooler", "mode session")
		require.True(t, store.Permanent(err))
	}
}

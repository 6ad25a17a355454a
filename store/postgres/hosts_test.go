package postgres_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestFrozenServer: the first server of the list takes connections and never answers. It costs a timeout once, and not
// for each connection.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	frozen, works := testserver.NewPostgres(t, testserver.PostgresConfig{}), testserver.NewPostgres(t, testserver.PostgresConfig{})
	require.NoError(t, frozen.Member(0).Pause())
	st := open(t, postgres.Config{Addresses: append(frozen.Addrs(), works.Addrs()...)})
	start := time.Now()
	castFirst(t, st, newElection(), "own")
	require.Less(t, time.Since(start), 3*ttl)
}

// TestServerWithoutDatabase: the first server of the list answers, and does not have the database.
func TestServerWithoutDatabase(t *testing.T) {
	t.Parallel()
	without, with := testserver.NewPostgres(t, testserver.PostgresConfig{}), testserver.NewPostgres(t, testserver.PostgresConfig{})
	with.Query(t, "CREATE DATABASE elections")
	st := open(t, postgres.Config{Addresses: append(without.Addrs(), with.Addrs()...), Database: "elections"})
	castFirst(t, st, newElection(), "own")
	_, err := open(t, postgres.Config{Addresses: without.Addrs(), Database: "elections"}).Cast(soon(t), "a", "own")
	require.ErrorContains(t, err, `database "elections" does not exist (SQLSTATE 3D000): create the database`)
	require.NotErrorIs(t, err, store.ErrUnavailable)

	// The server that is out of reach might have it.
	_, err = open(t, postgres.Config{Addresses: append(without.Addrs(), "127.0.0.1:1"), Database: "elections"}).Cast(within(t, ttl), "a", "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
}

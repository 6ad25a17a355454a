package postgres_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestFrozenServer: the first server of the list takes connections and never answers. It costs a timeout once, and not for
// each connection.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	frozen, works := testserver.NewPostgres(t, testserver.PostgresConfig{}), testserver.NewPostgres(t, testserver.PostgresConfig{})
	require.NoError(t, frozen.Member(0).Pause())
	st := open(t, postgres.Config{Addresses: append(frozen.Addrs(), works.Addrs()...)})
	start := time.Now()
	castFirst(t, st, newElection(), "own")
	require.Less(t, time.Since(start), 3*ttl)
}

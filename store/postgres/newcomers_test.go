package postgres_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// A leader has died with all others. A candidate that comes later, and goes before the TTL, leaves what it has seen: the
// next one leads sooner than after the TTL.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	schema, query := newSchema(t)
	config := postgres.Config{Schema: schema, TTL: ttl, Addresses: sharedServer(t).Addrs(), User: testserver.PostgresUser, Database: "postgres"}
	query(schemaSQL(t, schema))
	query("SELECT open('dead', 5000, 7)")
	query("SELECT enter('dead', 'a', 'n', 0, 1, 'dead')")

	st, err := postgres.Open(config)
	require.NoError(t, err)
	b := cast(t, st, "a", "first")
	time.Sleep(ttl / 2) // its patience
	require.NoError(t, withdraw(soon(t), b))
	require.NoError(t, st.Close())
	left, err := strconv.Atoi(query("SELECT ttl FROM queue('a', 1)"))
	require.NoError(t, err)
	require.LessOrEqual(t, left, 2500, "ms")

	began := time.Now()
	castFirst(t, open(t, config), "a", "second")
	t.Logf("%v ms were left, and the second led after %v", left, time.Since(began))
}

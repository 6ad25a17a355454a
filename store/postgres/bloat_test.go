package postgres_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// Many terms leave little behind, even if the server never vacuums: some hundred bytes a term, and no term takes
// longer.
func TestBloat(t *testing.T) {
	t.Parallel()
	const perTerm = 500 // bytes
	terms := 10_000
	if testing.Short() {
		t.Log("2,000 terms, and 10,000 without -short")
		terms = 2_000
	}
	server := testserver.NewPostgres(t, testserver.PostgresConfig{Extra: map[string]string{"autovacuum": "off"}})
	st := open(t, postgres.Config{Addresses: server.Addrs(), TTL: long})
	size := func() int {
		n, err := strconv.Atoi(server.Query(t, `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
			WHERE relnamespace = 'leadership'::regnamespace AND relkind = 'r'`))
		require.NoError(t, err)
		return n
	}
	lead := func(n int) time.Duration {
		began := time.Now()
		for range n {
			b := castFirst(t, st, "a", "own")
			acknowledge(t, b, "own")
			require.NoError(t, withdraw(soon(t), b))
		}
		return time.Since(began) / time.Duration(n)
	}
	early := lead(1000)
	before := size()
	if terms > 2000 {
		lead(terms - 2000)
	}
	late := lead(1000)
	after := size()
	t.Logf("%d kB after 1,000 terms and %d kB after %d; %v a term at first and %v at last", before/1000, after/1000, terms, early, late)
	require.Less(t, after-before, (terms-1000)*perTerm)
	require.Less(t, late, 10*early, "a busy machine explains less")
}

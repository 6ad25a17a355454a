package postgres_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestCommitsThatHang: the synchronous standby is away, so each commit hangs on the server, also after its client has
// gone. A store that tries again leaves no more and more connections behind: they would use up those of all programs.
func TestCommitsThatHang(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), TTL: time.Second}), newElection(), "own")
	srv.Query(t, "ALTER SYSTEM SET synchronous_standby_names = 'gone'")
	srv.Query(t, "SELECT pg_reload_conf()")
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(time.Second) {
		n, err := strconv.Atoi(srv.Query(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leadership'"))
		require.NoError(t, err)
		require.Less(t, n, 15, "connections after %v", time.Since(start))
	}
	srv.Query(t, "ALTER SYSTEM RESET synchronous_standby_names")
	srv.Query(t, "SELECT pg_reload_conf()")
}

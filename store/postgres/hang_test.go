package postgres_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestCommitsThatHang: the synchronous standby is away, so each commit hangs on the server, also after its client has
// gone. A store that tries again leaves no more and more connections behind: they would use up those of all programs.
// Nor does one that has no session yet.
func TestCommitsThatHang(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), TTL: time.Second}), newElection(), "own")
	late := open(t, postgres.Config{Addresses: srv.Addrs(), TTL: time.Second})
	_, err := late.Observe(soon(t), "a", nil)
	require.NoError(t, err)
	srv.Query(t, "ALTER SYSTEM SET synchronous_standby_names = 'gone'")
	srv.Query(t, "SELECT pg_reload_conf()")
	casts := make(chan error, 1)
	go func() {
		for {
			_, err := late.Cast(soon(t), "a", "own") // some seconds
			if !errors.Is(err, store.ErrUnavailable) {
				casts <- err
				return
			}
		}
	}()
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(time.Second) {
		n, err := strconv.Atoi(srv.Query(t, "SELECT count(*) "+clients+" AND wait_event = 'SyncRep'"))
		require.NoError(t, err)
		require.LessOrEqual(t, n, 6, "commits that hang after %v", time.Since(start))
	}
	srv.Query(t, "ALTER SYSTEM RESET synchronous_standby_names")
	srv.Query(t, "SELECT pg_reload_conf()")
	require.NoError(t, receive(t, casts, "the end of the outage"))
}

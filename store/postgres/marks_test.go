package postgres_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestMarksOfAShortTTL: the dead session has a much shorter TTL than the only process that is left. The process is
// shown the mark once in each of its own renewals, and must not have forgotten the mark by the next one.
func TestMarksOfAShortTTL(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	st := open(t, postgres.Config{Addresses: srv.Addrs(), TTL: 30 * time.Second})
	castFirst(t, st, newElection(), "own")
	srv.Query(t, "SELECT leadership.open('dead', 1000, 1)")
	for start := time.Now(); srv.Query(t, "SELECT count(*) FROM leadership.session WHERE id = 'dead'") == "1"; time.Sleep(time.Second) {
		require.Less(t, time.Since(start), 20*time.Second, "the session still stands")
		srv.Query(t, "NOTIFY leadership, 'of another program'") // wakes the store
	}
}

// Many sessions die at once, more than a renewal looks after. They end all the same, eight after eight.
func TestManySessionsDie(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	st := open(t, postgres.Config{Addresses: srv.Addrs(), TTL: time.Second})
	castFirst(t, st, newElection(), "own")
	srv.Query(t, "SELECT leadership.open('dead ' || n, 1000, n) FROM generate_series(1, 20) n")
	eventually(t, func() bool { return srv.Query(t, "SELECT count(*) FROM leadership.session") == "1" }, "all have ended")
}

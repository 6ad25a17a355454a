package postgres_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// An older copy of the data comes back under a leader whose session is in the copy, and whose ballot is not. The copy has
// the same timeline, so no epoch tells, and gives the ballot's token out again. A candidate that starts then might lead at
// once. The old leader's ballot is lost when its store has connected, and has read the ballot again.
func TestRestoreUnderALeader(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	config := postgres.Config{Addresses: server.Addrs(), TTL: long}
	st := open(t, config)
	castFirst(t, st, newElection(), "so that the session is in the copy")
	member := server.Member(0)
	require.NoError(t, member.Kill())
	require.NoError(t, member.SaveData())
	require.NoError(t, member.Start(soon(t)))
	a := castFirst(t, st, "a", "first")
	acknowledge(t, a, "first")
	require.NoError(t, member.Kill())
	require.NoError(t, member.RestoreData())
	next := open(t, config)
	lostAt := make(chan time.Time, 1)
	go func() { <-a.Lost(); lostAt <- time.Now() }()
	require.NoError(t, member.Start(soon(t)))
	b := castFirst(t, next, "a", "next")
	led := time.Now()
	at := receive(t, lostAt, "the end of the first")
	t.Logf("the next led %v before the first had ended, with token %d after %d", at.Sub(led), b.Token(), a.Token())
	require.ErrorContains(t, a.Err(), "its row was deleted")
	require.Less(t, at.Sub(led), long/3, "the lease did not have to end")
}

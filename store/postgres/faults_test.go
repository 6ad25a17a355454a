package postgres_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// clients are the connections of stores to a server.
const clients = "FROM pg_stat_activity WHERE application_name = 'leadership'"

// three lets three candidates contend in a server that is shared with no other test.
func three(t *testing.T, config postgres.Config) []*storetest.Contender {
	t.Helper()
	list := []*storetest.Contender{}
	for _, value := range []string{"first", "second", "third"} {
		list = append(list, contend(t, open(t, config), "a", value))
	}
	oneLeader(t, list...)
	leaderAmong(t, list...)
	return list
}

// The server is restarted as after a crash, three times. One candidate leads, the same or another one.
func TestImmediateRestarts(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	list := three(t, postgres.Config{Addresses: server.Addrs()})
	for range 3 {
		require.NoError(t, server.RestartImmediately(soon(t)))
		began := time.Now()
		leaderSince(t, began, list...)
	}
}

// leaderSince waits until a candidate leads whose session has been renewed since then.
func leaderSince(t *testing.T, since time.Time, list ...*storetest.Contender) *storetest.Contender {
	t.Helper()
	var leader *storetest.Contender
	eventually(t, func() bool {
		for _, c := range list {
			if term := c.Term(); term != nil && c.IsLeader() && term.Ballot().Lease().Last().Sent.After(since) {
				leader = c
				return true
			}
		}
		return false
	}, "a leader whose session was renewed")
	return leader
}

// A process of the server is killed. The server then ends all connections and recovers.
func TestBackendIsKilled(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	list := three(t, postgres.Config{Addresses: server.Addrs()})
	for range 2 {
		pid, err := strconv.Atoi(server.Query(t, "SELECT max(pid) "+clients))
		require.NoError(t, err)
		require.NoError(t, server.KillBackend(soon(t), pid))
		leaderSince(t, time.Now(), list...)
	}
}

// Connections are ended at random. That proves nothing of a process: the leader goes on leading, or at most another
// one.
func TestConnectionsAreEndedAtRandom(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	list := three(t, postgres.Config{Addresses: server.Addrs()})
	ended := 0
	for began := time.Now(); time.Since(began) < 3*ttl; time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) {
		n, err := strconv.Atoi(server.Query(t, "SELECT count(pg_terminate_backend(pid)) "+clients+" AND random() < 0.5"))
		require.NoError(t, err)
		ended += n
	}
	require.Positive(t, ended)
	leaderSince(t, time.Now(), list...)
	leader := leaderAmong(t, list...)
	leader.Resign()
	next := leaderSince(t, time.Now(), list...)
	requireLeader(t, list[0].Store, "a", next.Value)
	t.Logf("%d connections were ended", ended)
}

// A lost connection ends no term, and no session: the leader's, and those of a server that starts again, go on.
func TestLostConnectionsEndNoTerm(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	c := contend(t, open(t, postgres.Config{Addresses: server.Addrs(), TTL: long}), "a", "own")
	term := receive(t, c.Terms, "it leads")
	sessions := server.Query(t, "SELECT id FROM leadership.session")
	for name, fault := range map[string]func(){
		"pg_terminate_backend":    func() { server.Query(t, "SELECT pg_terminate_backend(pid) "+clients) },
		"a restart after a crash": func() { require.NoError(t, server.RestartImmediately(soon(t))) },
	} {
		fault()
		renewed(t, term.Ballot())
		require.Same(t, term, c.Term(), name)
		require.NoError(t, term.Context().Err(), name)
		require.Equal(t, sessions, server.Query(t, "SELECT id FROM leadership.session"), name)
	}
}

// A limit for idle sessions, which an operator has set for the role, ends no connection of a store.
func TestIdleSessionTimeout(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	server.Query(t, "CREATE ROLE idler LOGIN SUPERUSER; ALTER ROLE idler SET idle_session_timeout = '200ms'")
	config := postgres.Config{Addresses: server.Addrs(), User: "idler", TTL: long}
	c := contend(t, open(t, config), "a", "own")
	term := receive(t, c.Terms, "it leads")
	requireLeader(t, open(t, config), "a", "own")
	before := server.Query(t, "SELECT array_agg(pid ORDER BY pid) "+clients)
	now := time.Now()
	for range 2 {
		renewed(t, term.Ballot())
	}
	require.Greater(t, time.Since(now), 2*time.Second)
	require.Equal(t, before, server.Query(t, "SELECT array_agg(pid ORDER BY pid) "+clients))
	require.Same(t, term, c.Term())
}

package postgres_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// clients are the connections of stores to a server.
const clients = "FROM pg_stat_activity WHERE application_name = 'leadership'"

// three lets three candidates contend in the election "a".
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

// leaderSince waits until a candidate leads whose session has been renewed since then.
func leaderSince(t *testing.T, since time.Time, list ...*storetest.Contender) *storetest.Contender {
	t.Helper()
	var leader *storetest.Contender
	eventually(t, func() bool {
		for _, c := range list {
			if term := c.Current(); term != nil && c.IsLeader() && term.Ballot().Lease().Last().Sent.After(since) {
				leader = c
				return true
			}
		}
		return false
	}, "a leader whose session was renewed")
	return leader
}

// Connections end, and the server crashes. Of three candidates one leads, the same or another one. Nothing of it ends a
// term whose TTL is long: that of the leader of "long".
func TestCrashes(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	list := three(t, postgres.Config{Addresses: server.Addrs(), TTL: ttl})
	c := contend(t, open(t, postgres.Config{Addresses: server.Addrs(), TTL: long}), "long", "own")
	term := receive(t, c.Terms, "it leads")
	const session = "SELECT session FROM leadership.entry WHERE election = 'long'"
	before := server.Query(t, session)
	for _, fault := range []struct {
		name   string
		happen func(t *testing.T)
	}{
		{"the server is restarted as after a crash", func(t *testing.T) {
			require.NoError(t, server.RestartImmediately(soon(t)))
		}},
		{"a process of the server is killed", func(t *testing.T) { // the server ends all connections and recovers
			pid, err := strconv.Atoi(server.Query(t, "SELECT max(pid) "+clients))
			require.NoError(t, err)
			require.NoError(t, server.KillBackend(soon(t), pid))
		}},
		{"the server is restarted three times", func(t *testing.T) {
			for range 3 {
				require.NoError(t, server.RestartImmediately(soon(t)))
				leaderSince(t, time.Now(), list...)
			}
		}},
		{"all connections are ended", func(t *testing.T) {
			require.NotEqual(t, "0", server.Query(t, "SELECT count(pg_terminate_backend(pid)) "+clients))
		}},
		{"connections are ended at random", func(t *testing.T) {
			ended := 0
			for began := time.Now(); time.Since(began) < 2*ttl; time.Sleep(rand.N(400 * time.Millisecond)) {
				n, err := strconv.Atoi(server.Query(t, "SELECT count(pg_terminate_backend(pid)) "+clients+" AND random() < 0.5"))
				require.NoError(t, err)
				ended += n
			}
			require.Positive(t, ended)
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.happen(t)
			leader := leaderSince(t, time.Now(), list...)
			leader.Resign()
			next := leaderSince(t, time.Now(), list...)
			requireLeader(t, list[0].Store, "a", next.Value)
			require.Same(t, term, c.Current())
			require.NoError(t, term.Context().Err())
		})
	}
	renewed(t, term.Ballot())
	require.Same(t, term, c.Current())
	require.Equal(t, before, server.Query(t, session))
}

// Many sessions die at once, more than a renewal looks after while they live. They end together.
func TestManySessionsDie(t *testing.T) {
	t.Parallel()
	meter := stall.Watch(t)
	schema, query := newSchema(t)
	const ttl = 2 * time.Second
	castFirst(t, open(t, postgres.Config{Schema: schema, TTL: ttl}), "a", "own")
	query("SELECT open('dead ' || n, 2000, n) FROM generate_series(1, 30) n")
	began := time.Now()
	eventually(t, func() bool { return query("SELECT count(*) FROM session WHERE id LIKE 'dead %'") == "0" }, "all have ended")
	t.Logf("after %v", time.Since(began))
	require.Less(t, time.Since(began), 2*ttl+meter.Stalled(), "%v", meter)
}

// A request waits for a lock for too long. The server gives it up, and says so before the store gives up the
// connection: the request was not carried out, and no connection is lost, which would make the store read everything
// again.
func TestLockWaitIsAnswered(t *testing.T) {
	t.Parallel()
	schema, _ := ownSchema(t)
	d, err := postgres.NewDriver(postgres.Config{
		Addresses: sharedServer(t).Addrs(), User: testserver.PostgresUser, Database: "postgres", Schema: schema, TTL: 2 * ttl,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, _, err := d.Open(soon(t))
	require.NoError(t, err)
	tx, err := connect(t, schema, nil).Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), "SELECT pg_advisory_xact_lock(hashtext('"+schema+"'), hashtext('a'))")
	require.NoError(t, err)
	_, err = s.Enter(soon(t), "a", engine.Nonce{Name: "n"}, "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	require.Zero(t, postgres.Losses(d))
}

// The server's disk is full: casts fail in words, and one leader leads again when there is room.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small disk takes root")
	}
	server := testserver.NewPostgres(t, testserver.PostgresConfig{DiskSize: 128 << 20})
	list := three(t, postgres.Config{Addresses: server.Addrs(), TTL: ttl})
	require.NoError(t, server.FillDisk())
	var err error
	for value := strings.Repeat("much", 2_000); err == nil; { // which is more than there is room for in the tables
		_, err = list[0].Store.Cast(within(t, ttl), newElection(), value)
	}
	t.Log(err)
	require.True(t, errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome), "%v", err)
	require.NoError(t, server.FreeDisk())
	eventually(t, func() bool {
		if server.Member(0).Running() {
			return leaderAmong(t, list...) != nil
		}
		return server.Member(0).Start(soon(t)) == nil
	}, "the server recovers, and a candidate leads")
	castFirst(t, list[0].Store, newElection(), "own")
}

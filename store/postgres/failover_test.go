package postgres_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// pair is a primary and its standby, and the settings of stores that know both.
type pair struct {
	primary, standby *testserver.Postgres
	config           postgres.Config
}

func newPair(t *testing.T, synchronous bool) pair {
	t.Helper()
	primary := testserver.NewPostgres(t, testserver.PostgresConfig{})
	standby := primary.Standby(t, testserver.PostgresConfig{}, synchronous)
	return pair{primary, standby, postgres.Config{Addresses: append(primary.Addrs(), standby.Addrs()...), TTL: ttl}}
}

// failsOver ends the primary and promotes the standby. It returns a time before the standby was a primary.
func (p pair) failsOver(t *testing.T) (began time.Time) {
	t.Helper()
	require.NoError(t, p.primary.Member(0).Kill())
	began = time.Now()
	require.NoError(t, p.standby.Promote(soon(t)))
	return began
}

// A failover loses a leader's ballot that was cast and acknowledged, and the resignation of the leader before it. No
// ballot is cast for the longest TTL. Then tokens and revisions go on above the lost ones, and followers are told.
func TestFailoverLosesTransactions(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	const longest = 2 * ttl
	slow := p.config
	slow.TTL = longest
	castFirst(t, open(t, slow), newElection(), "so that there is a session with the longest ttl")
	election, other := newElection(), newElection()
	first := contend(t, open(t, p.config), election, "first")
	term := receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, p.config), election, "second")
	eventually(t, func() bool { return len(values(t, second.Store, election)) == 2 }, "both stand")
	oneLeader(t, first, second)
	follower := open(t, p.config)
	requireLeader(t, follower, election, "first")
	require.NoError(t, p.standby.CatchUp(soon(t)))
	require.NoError(t, p.standby.Disconnect(soon(t)))

	first.Resign()
	next := receive(t, second.Terms, "the second leads, and that is lost")
	require.Greater(t, next.Token(), term.Token())
	late := castFirst(t, open(t, p.config), other, "late")
	ack := acknowledge(t, late, "late")
	requireLeader(t, follower, other, "late")
	began := p.failsOver(t)

	lost(t, late)
	told, err := storetest.Leader(soon(t), follower, other, &ack)
	for err != nil {
		require.ErrorIs(t, err, store.ErrUnavailable)
		told, err = storetest.Leader(soon(t), follower, other, &ack)
	}
	require.Equal(t, store.Leader{}, told, "the follower must be told that the ballot was lost")
	b := castFirst(t, open(t, p.config), other, "new")
	require.GreaterOrEqual(t, time.Since(began), longest, "no ballot is cast while a lost one might lead")
	require.Greater(t, b.Token(), late.Token())
	require.Greater(t, acknowledge(t, b, "new").Revision, ack.Revision)
	requireLeader(t, follower, other, "new")

	last := leaderAmong(t, first, second)
	last.End() // its acknowledgement might have been lost
	requireLeader(t, follower, election, leaderAmong(t, first, second).Value)
}

// A failover that loses nothing: the leader that renews in time keeps leading. No ballot is cast for the longest TTL.
func TestFailoverKeepsTheLeader(t *testing.T) {
	t.Parallel()
	for name, synchronous := range map[string]bool{"asynchronous": false, "synchronous": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, synchronous)
			p.config.TTL = long
			election := newElection()
			first := contend(t, open(t, p.config), election, "first")
			term := receive(t, first.Terms, "the first leads")
			second := contend(t, open(t, p.config), election, "second")
			eventually(t, func() bool { return len(values(t, second.Store, election)) == 2 }, "both stand")
			oneLeader(t, first, second)
			require.NoError(t, p.standby.CatchUp(soon(t)))
			began := p.failsOver(t)
			_, err := open(t, p.config).Cast(within(t, p.config.TTL/2), newElection(), "too early")
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "failed over")
			castFirst(t, open(t, p.config), newElection(), "later")
			require.GreaterOrEqual(t, time.Since(began), p.config.TTL)
			require.True(t, first.IsLeader())
			require.Same(t, term, first.Term())
			require.NoError(t, term.Context().Err())
			requireLeader(t, second.Store, election, "first")
			first.End()
			require.Greater(t, receive(t, second.Terms, "the second leads").Token(), term.Token())
		})
	}
}

// A failover loses that the peers of a candidate ended its session, and that the next in line took over. The candidate,
// which was cut off for longer than its TTL, finds its ballot on the new primary, ahead of the leader's. It must not
// lead.
func TestFailoverLosesTheEndOfASession(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	p.config.TTL = 3 * ttl
	network := conformance.NewNetwork()
	cutOff := p.config
	cutOff.Dial = network.Dial
	election := newElection()
	first := contend(t, open(t, p.config), election, "first")
	receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, cutOff), election, "second")
	eventually(t, func() bool { return len(values(t, first.Store, election)) == 2 }, "both stand")
	third := contend(t, open(t, p.config), election, "third")
	eventually(t, func() bool { return len(values(t, first.Store, election)) == 3 }, "all stand")
	oneLeader(t, first, second, third)
	require.NoError(t, p.standby.CatchUp(soon(t)))
	require.NoError(t, p.standby.Disconnect(soon(t)))
	network.Cut()
	eventually(t, func() bool { return len(values(t, first.Store, election)) == 2 }, "the second's session has been ended")
	first.End()
	term := receive(t, third.Terms, "the third leads")
	p.failsOver(t)
	network.Heal()
	for start := time.Now(); time.Since(start) < ttl; time.Sleep(ttl / 100) {
		require.False(t, second.IsLeader(), "its ballot is ahead of the leader's again")
	}
	require.NoError(t, term.Context().Err())
	requireLeader(t, third.Store, election, "third") // that it was acknowledged was lost, too
	third.End()
	receive(t, second.Terms, "the second leads")
}

// An operator drops the schema on a server that has failed over before. The processes that have been told of the
// failover make the schema again, and elect.
func TestSchemaIsDroppedAfterAFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	p.config.TTL = long // the leader keeps its ballot, so its token is lower than all of the new epoch
	c := contend(t, open(t, p.config), "a", "own")
	term := receive(t, c.Terms, "it leads")
	require.NoError(t, p.standby.CatchUp(soon(t)))
	p.failsOver(t)
	castFirst(t, open(t, p.config), "b", "other") // the pause is over
	require.Same(t, term, leaderAmong(t, c).Term())
	p.standby.Query(t, "DROP SCHEMA leadership CASCADE")
	receive(t, term.Context().Done(), "the end of the term")
	eventually(t, func() bool { now := c.Term(); return c.IsLeader() && now != nil && now != term }, "it leads again")
	requireLeader(t, open(t, p.config), "a", "own")
}

// An old primary whose synchronous standby was promoted confirms nothing: the lease of a leader that reaches only the
// old primary ends, and then the next one leads.
func TestOldPrimaryWithSynchronousStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	election := newElection()
	onlyOld, onlyNew := p.config, p.config
	onlyOld.Addresses, onlyNew.Addresses = p.primary.Addrs(), p.standby.Addrs()
	first := contend(t, open(t, onlyOld), election, "first")
	term := receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, onlyNew), election, "second")
	oneLeader(t, first, second)
	require.NoError(t, p.standby.Disconnect(soon(t)))
	began := time.Now()
	require.NoError(t, p.standby.Promote(soon(t)))
	receive(t, term.Context().Done(), "the end of the term")
	require.Less(t, time.Since(began), ttl, "by its own clock")
	next := receive(t, second.Terms, "the second leads")
	require.GreaterOrEqual(t, time.Since(began), ttl)
	require.Greater(t, next.Token(), term.Token())
	require.False(t, first.IsLeader())
}

// An operator cancels the commits that wait for a standby. The server then warns, and the commit is visible, but it
// might be lost. No renewal of this kind counts, even if the operator has turned warnings off for the role.
func TestCancelledCommits(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	p.primary.Query(t, "ALTER ROLE "+testserver.PostgresUser+" SET client_min_messages = 'error'")
	c := contend(t, open(t, p.config), newElection(), "own")
	term := receive(t, c.Terms, "it leads")
	require.NoError(t, p.standby.Disconnect(soon(t)))
	began := time.Now()
	cancelled := 0
	eventually(t, func() bool {
		pids := p.primary.Query(t, `SELECT pid FROM pg_stat_activity
			WHERE CASE WHEN wait_event = 'SyncRep' THEN pg_cancel_backend(pid) END`)
		if pids != "" {
			cancelled++
		}
		return term.Context().Err() != nil
	}, "the end of the term")
	require.Less(t, time.Since(began), ttl)
	require.Positive(t, cancelled)
	require.NoError(t, p.standby.Reconnect(soon(t)))
	receive(t, c.Terms, "it leads again")
}

// To pass over a standby is no error in the standby's log. All candidates try the standbys again and again at a
// failover.
func TestStandbyIsPassedOverQuietly(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	castFirst(t, open(t, p.config), newElection(), "so that there is a schema")
	require.NoError(t, p.standby.CatchUp(soon(t)))
	stat := func(column string) int {
		n, err := strconv.Atoi(p.standby.Query(t, "SELECT "+column+" FROM pg_stat_database WHERE datname = 'postgres'"))
		require.NoError(t, err)
		return n
	}
	before := stat("sessions")
	p.config.Addresses = append(p.standby.Addrs(), p.primary.Addrs()...)
	for range 3 {
		castFirst(t, open(t, p.config), newElection(), "own")
	}
	own := 1 // sessions of stat
	eventually(t, func() bool { own++; return stat("sessions")-before > own }, "the standby was tried, besides by stat")
	require.Zero(t, stat("xact_rollback"), "of transactions that failed")
}

package postgres_test

import (
	"context"
	"errors"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// pair is a primary and its standby. Scenarios share it: each has a schema of its own.
type pair struct{ primary, standby *testserver.Postgres }

func newPair(t *testing.T, synchronous bool) pair {
	t.Helper()
	primary := testserver.NewPostgres(t, testserver.PostgresConfig{})
	return pair{primary, primary.Standby(t, testserver.PostgresConfig{}, synchronous)}
}

// config returns the settings of stores that know both.
func (p pair) config(schema string, ttl time.Duration) postgres.Config {
	return postgres.Config{Addresses: append(p.primary.Addrs(), p.standby.Addrs()...), Schema: schema, TTL: ttl}
}

// cutStandbyOff ends the replication: what is committed then is lost if the standby is promoted.
func (p pair) cutStandbyOff(t *testing.T) {
	require.NoError(t, p.standby.CatchUp(soon(t)))
	require.NoError(t, p.standby.Disconnect(soon(t)))
}

// moment is one that several scenarios wait for, so that they can share it.
type moment struct {
	mu      sync.Mutex
	missing map[string]bool    // scenarios that are not ready; guarded by mu
	came    chan struct{}      // closed when happen has returned
	happen  func(t *testing.T) // runs once all are ready
}

func newMoment(happen func(t *testing.T)) *moment {
	return &moment{missing: map[string]bool{}, came: make(chan struct{}), happen: happen}
}

// wait says that a scenario is ready, and waits for the moment.
func (m *moment) wait(t *testing.T) {
	t.Helper()
	m.ready(t, path.Base(t.Name()))
	receive(t, m.came, "the moment for which all scenarios are ready")
}

func (m *moment) ready(t *testing.T, scenario string) {
	m.mu.Lock()
	last := m.missing[scenario] && len(m.missing) == 1
	delete(m.missing, scenario)
	m.mu.Unlock()
	if last {
		m.happen(t)
		close(m.came)
	}
}

// share runs scenarios at the same time, which wait for the moments.
func share(t *testing.T, moments []*moment, scenarios map[string]func(t *testing.T)) {
	for name := range scenarios {
		for _, m := range moments {
			m.missing[name] = true
		}
	}
	var all sync.WaitGroup
	for name, scenario := range scenarios {
		all.Go(func() {
			t.Run(name, scenario)
			for _, m := range moments {
				m.ready(t, name) // if it has failed, or is not run
			}
		})
	}
	all.Wait()
}

// The primary ends, and the standby lacks the last transactions.
func TestLossyFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	cut := newMoment(p.cutStandbyOff)
	var began time.Time // before the standby was a primary
	failover := newMoment(func(t *testing.T) {
		require.NoError(t, p.primary.Member(0).Kill())
		began = time.Now()
		require.NoError(t, p.standby.Promote(soon(t)))
	})
	share(t, []*moment{cut, failover}, map[string]func(t *testing.T){
		// A leader's ballot that was cast and acknowledged is lost, and the resignation of the leader before it. No ballot is
		// cast for the longest TTL. Then tokens and revisions go on above the lost ones, and followers are told.
		"ballot": func(t *testing.T) {
			const longest = 2 * ttl
			config := p.config("ballots", ttl)
			castFirst(t, open(t, p.config("ballots", longest)), newElection(), "so that there is a session with the longest ttl")
			election, other := newElection(), newElection()
			first := contend(t, open(t, config), election, "first")
			term := receive(t, first.Terms, "the first leads")
			second := contend(t, open(t, config), election, "second")
			eventually(t, func() bool { return len(values(t, second.Store, election)) == 2 }, "both stand")
			oneLeader(t, first, second)
			follower := open(t, config)
			requireLeader(t, follower, election, "first")
			cut.wait(t)

			first.Resign()
			next := receive(t, second.Terms, "the second leads, and that is lost")
			require.Greater(t, next.Token(), term.Token())
			late := castFirst(t, open(t, config), other, "late")
			ack := acknowledge(t, late, "late")
			requireLeader(t, follower, other, "late")
			failover.wait(t)

			lost(t, late)
			told, err := storetest.Leader(soon(t), follower, other, &ack)
			for err != nil {
				require.ErrorIs(t, err, store.ErrUnavailable)
				told, err = storetest.Leader(soon(t), follower, other, &ack)
			}
			require.Equal(t, store.Leader{}, told, "the follower must be told that the ballot was lost")
			b := castFirst(t, open(t, config), other, "new")
			require.GreaterOrEqual(t, time.Since(began), longest, "no ballot is cast while a lost one might lead")
			require.Greater(t, b.Token(), late.Token())
			require.Greater(t, acknowledge(t, b, "new").Revision, ack.Revision)
			requireLeader(t, follower, other, "new")

			last := leaderAmong(t, first, second)
			last.End() // its acknowledgement might have been lost
			requireLeader(t, follower, election, leaderAmong(t, first, second).Value)
		},
		// It is lost that the peers of a candidate ended its session, and that the next in line took over. The candidate,
		// which was cut off for longer than its TTL, finds its ballot on the new primary, ahead of the leader's. It must not
		// lead.
		"session": func(t *testing.T) {
			const ttl = 20 * time.Second // in which the third reaches the new primary
			network := conformance.NewNetwork()
			config, cutOff := p.config("sessions", ttl), p.config("sessions", ttl)
			cutOff.Dial = network.Dial
			election := newElection()
			first := contend(t, open(t, config), election, "first")
			receive(t, first.Terms, "the first leads")
			second := contend(t, open(t, cutOff), election, "second")
			eventually(t, func() bool { return len(values(t, first.Store, election)) == 2 }, "both stand")
			third := contend(t, open(t, config), election, "third")
			eventually(t, func() bool { return len(values(t, first.Store, election)) == 3 }, "all stand")
			oneLeader(t, first, second, third)
			cut.wait(t)

			network.Cut()
			eventually(t, func() bool { return len(values(t, first.Store, election)) == 2 }, "the second's session has been ended")
			first.End()
			term := receive(t, third.Terms, "the third leads")
			failover.wait(t)

			network.Heal()
			for start := time.Now(); time.Since(start) < ttl/2; time.Sleep(ttl / 400) { // it tries to renew meanwhile
				require.False(t, second.IsLeader(), "its ballot is ahead of the leader's again")
			}
			require.NoError(t, term.Context().Err())
			requireLeader(t, third.Store, election, "third") // that it was acknowledged was lost, too
			third.End()
			receive(t, second.Terms, "the second leads")
		},
	})
}

// The primary ends, and the standby has all that was committed.
func TestFailover(t *testing.T) {
	t.Parallel()
	const ttl = long // in which the leaders reach the new primary
	p := newPair(t, false)
	var began time.Time // before the standby was a primary
	failover := newMoment(func(t *testing.T) {
		require.NoError(t, p.standby.CatchUp(soon(t)))
		require.NoError(t, p.primary.Member(0).Kill())
		began = time.Now()
		require.NoError(t, p.standby.Promote(soon(t)))
	})
	share(t, []*moment{failover}, map[string]func(t *testing.T){
		// The leader that renews in time keeps leading. No ballot is cast for the longest TTL.
		"leader": func(t *testing.T) {
			config := p.config("leader", ttl)
			first := contend(t, open(t, config), "a", "first")
			term := receive(t, first.Terms, "the first leads")
			second := contend(t, open(t, config), "a", "second")
			eventually(t, func() bool { return len(values(t, second.Store, "a")) == 2 }, "both stand")
			oneLeader(t, first, second)
			failover.wait(t)
			_, err := open(t, config).Cast(within(t, ttl/2), newElection(), "too early")
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "failed over")
			castFirst(t, open(t, config), newElection(), "later")
			require.GreaterOrEqual(t, time.Since(began), ttl)
			require.True(t, first.IsLeader())
			require.Same(t, term, first.Current())
			require.NoError(t, term.Context().Err())
			requireLeader(t, second.Store, "a", "first")
			first.End()
			require.Greater(t, receive(t, second.Terms, "the second leads").Token(), term.Token())
		},
		// An operator drops the schema afterwards. The processes that have been told of the failover make the schema again,
		// and elect.
		"schema": func(t *testing.T) {
			config := p.config("dropped", ttl)
			c := contend(t, open(t, config), "a", "own")
			term := receive(t, c.Terms, "it leads") // it keeps its ballot, so its token is lower than all of the new epoch
			failover.wait(t)
			castFirst(t, open(t, config), "b", "other") // the pause is over
			require.Same(t, term, leaderAmong(t, c).Current())
			p.standby.Query(t, "DROP SCHEMA dropped CASCADE")
			receive(t, term.Context().Done(), "the end of the term")
			eventually(t, func() bool { now := c.Current(); return c.IsLeader() && now != nil && now != term }, "it leads again")
			requireLeader(t, open(t, config), "a", "own")
		},
		// The failover has raised the epoch, and the next one loses that. The epoch is not below the timeline, so it is not
		// the lost one again: a program that was told the lost one sees that the server has failed over.
		"epoch": func(t *testing.T) {
			p.primary.Query(t, schemaSQL(t, "epoch"))
			failover.wait(t)
			next := p.standby.Standby(t, testserver.PostgresConfig{}, false)
			require.NoError(t, next.Disconnect(soon(t)))
			require.Equal(t, "1|2", p.standby.Query(t, "SELECT * FROM epoch.hello()"))
			require.NoError(t, next.Promote(soon(t)))
			require.Equal(t, "1|3", next.Query(t, "SELECT * FROM epoch.hello()"))
		},
	})
}

// A primary whose synchronous standby is away, which at last is promoted, and then has a synchronous standby of its own.
func TestSynchronousStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	t.Run("quiet", p.isPassedOverQuietly)
	p.primary.Query(t, `CREATE ROLE cancelled LOGIN SUPERUSER; ALTER ROLE cancelled SET client_min_messages = 'error'; CREATE ROLE hanging LOGIN SUPERUSER`)
	away := newMoment(func(t *testing.T) { require.NoError(t, p.standby.Disconnect(soon(t))) })
	back := newMoment(func(t *testing.T) { require.NoError(t, p.standby.Reconnect(soon(t))) })
	share(t, []*moment{away, back}, map[string]func(t *testing.T){
		// An operator cancels the commits that wait for the standby. The server then warns, and the commit is visible, but it
		// might be lost. No renewal of this kind counts, even if the operator has turned warnings off for the role.
		"cancelled": func(t *testing.T) {
			meter := stall.Watch(t)
			config := p.config("cancelled", ttl)
			config.User = "cancelled"
			c := contend(t, open(t, config), "a", "own")
			term := receive(t, c.Terms, "it leads")
			away.wait(t)
			began := time.Now()
			cancelled := false
			eventually(t, func() bool {
				cancelled = cancelled || p.primary.Query(t, `SELECT pid FROM pg_stat_activity
					WHERE usename = 'cancelled' AND CASE WHEN wait_event = 'SyncRep' THEN pg_cancel_backend(pid) END`) != ""
				return term.Context().Err() != nil
			}, "the end of the term")
			require.Less(t, time.Since(began), ttl+meter.Stalled(), "%v", meter)
			require.True(t, cancelled)
			back.wait(t)
			receive(t, c.Terms, "it leads again")
		},
		// Each commit hangs on the server, also after its client has gone. A store that tries again leaves no more and more
		// connections behind: they would use up those of all programs. Nor does one that has no session yet.
		"hanging": func(t *testing.T) {
			config := postgres.Config{Addresses: p.primary.Addrs(), User: "hanging", Schema: "hanging", TTL: time.Second}
			castFirst(t, open(t, config), newElection(), "own")
			late := open(t, config)
			_, err := late.Observe(soon(t), "a", nil)
			require.NoError(t, err)
			away.wait(t)
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
			for start := time.Now(); time.Since(start) < 12*time.Second; time.Sleep(time.Second) {
				n, err := strconv.Atoi(p.primary.Query(t, "SELECT count(*) "+clients+" AND usename = 'hanging' AND wait_event = 'SyncRep'"))
				require.NoError(t, err)
				require.LessOrEqual(t, n, 6, "commits that hang after %v", time.Since(start))
			}
			back.wait(t)
			require.NoError(t, receive(t, casts, "the end of the outage"))
		},
	})
	t.Run("promoted", p.isPromoted)
	next := pair{p.standby, p.standby.Standby(t, testserver.PostgresConfig{}, true)}
	t.Run("leader", next.keepsTheLeader)
}

// To pass over a standby is no error in the standby's log. All candidates try the standbys again and again at a
// failover.
func (p pair) isPassedOverQuietly(t *testing.T) {
	config := p.config("quiet", long)
	castFirst(t, open(t, config), newElection(), "so that there is a schema")
	require.NoError(t, p.standby.CatchUp(soon(t)))
	stat := func(column string) int {
		n, err := strconv.Atoi(p.standby.Query(t, "SELECT "+column+" FROM pg_stat_database WHERE datname = 'postgres'"))
		require.NoError(t, err)
		return n
	}
	before := stat("sessions")
	config.Addresses = append(p.standby.Addrs(), p.primary.Addrs()...)
	for range 3 {
		castFirst(t, open(t, config), newElection(), "own")
	}
	own := 1 // sessions of stat
	eventually(t, func() bool { own++; return stat("sessions")-before > own }, "the standby was tried, besides by stat")
	require.Zero(t, stat("xact_rollback"), "of transactions that failed")
}

// The old primary then confirms nothing: the lease of a leader that reaches only the old primary ends, and then the next
// one leads. The old primary stays up, answers and is preferred until then: a candidate that reaches both goes over to
// the new one.
func (p pair) isPromoted(t *testing.T) {
	meter := stall.Watch(t)
	onlyOld, onlyNew := p.config("promoted", ttl), p.config("promoted", ttl)
	onlyOld.Addresses, onlyNew.Addresses = p.primary.Addrs(), p.standby.Addrs()
	first := contend(t, open(t, onlyOld), "a", "first")
	term := receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, onlyNew), "a", "second")
	third := contend(t, open(t, p.config("promoted", ttl)), "a", "third")
	eventually(t, func() bool { return len(values(t, first.Store, "a")) == 2 }, "the first and the third stand")
	oneLeader(t, first, second, third)
	require.NoError(t, p.standby.Disconnect(soon(t)))
	began := time.Now()
	require.NoError(t, p.standby.Promote(soon(t)))
	receive(t, term.Context().Done(), "the end of the term")
	require.Less(t, time.Since(began), ttl+meter.Stalled(), "by its own clock; %v", meter)
	next := leaderAmong(t, second, third)
	require.GreaterOrEqual(t, time.Since(began), ttl*2/3)
	require.Greater(t, next.Current().Token(), term.Token())
	require.False(t, first.IsLeader())
	next.End()
	last := leaderAmong(t, second, third)
	require.NotSame(t, next, last)
	t.Logf("both led on the new primary after %v", time.Since(began))
}

// The primary ends while its standby streams. The standby has all that was confirmed, up to the last moment.
func (p pair) keepsTheLeader(t *testing.T) {
	config := p.config("kept", long) // in which the leader reaches the new primary
	first := contend(t, open(t, config), "a", "first")
	term := receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, config), "a", "second")
	eventually(t, func() bool { return len(values(t, second.Store, "a")) == 2 }, "both stand")
	oneLeader(t, first, second)
	requireLeader(t, second.Store, "a", "first")
	require.NoError(t, p.primary.Member(0).Kill())
	require.NoError(t, p.standby.Promote(soon(t)))
	last := term.Ballot().Lease().Last().Deadline
	eventually(t, func() bool { return first.Current() != term || term.Ballot().Lease().Last().Deadline.After(last) }, "it renews, or another term begins")
	require.Same(t, term, first.Current())
	require.NoError(t, term.Context().Err())
	requireLeader(t, second.Store, "a", "first")
	first.End()
	require.Greater(t, receive(t, second.Terms, "the second leads").Token(), term.Token())
}

// A primary that stands still is left for its standby, once that is promoted. When the old primary goes on, without a
// standby, it is passed over by a store that has been told of the failover, though its address comes first and it
// answers.
func TestOldPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	first, second := contend(t, open(t, p.config("", ttl)), "a", "first"), contend(t, open(t, p.config("", ttl)), "a", "second")
	oneLeader(t, first, second)
	require.NoError(t, p.standby.CatchUp(soon(t)))
	term := leaderAmong(t, first, second).Current()
	require.NoError(t, p.primary.Member(0).Pause())
	began := time.Now()
	require.NoError(t, p.standby.Promote(soon(t)))
	var leader *storetest.Contender
	eventually(t, func() bool {
		for _, c := range []*storetest.Contender{first, second} {
			now := c.Current()
			if now != nil && now.Token() > term.Token() || now == term && c.IsLeader() && time.Since(began) > ttl {
				leader = c
			}
		}
		return leader != nil
	}, "a later term, or that the term goes on")
	if leader.Current() != term { // within its lease the leader reaches the new primary, and might learn there that its term is over
		require.Error(t, term.Context().Err(), "a later term has begun beside it")
	}
	t.Logf("a candidate led after %v, and the term before: %v", time.Since(began), context.Cause(term.Context()))

	require.NoError(t, p.primary.Member(0).Resume())
	terminated := func(server *testserver.Postgres) string {
		return server.Query(t, "SELECT count(pg_terminate_backend(pid)) "+clients)
	}
	for range 3 {
		require.NotEqual(t, "0", terminated(p.standby))
		b := castFirst(t, leader.Store, newElection(), "on the new primary")
		require.Equal(t, "1", p.standby.Query(t, "SELECT count(*) FROM leadership.entry WHERE token = "+strconv.FormatUint(b.Token(), 10)))
	}
	eventually(t, func() bool { return terminated(p.primary) == "0" }, "all connections are to the new primary")
	requireLeader(t, leader.Store, "a", leaderAmong(t, first, second).Value)
	require.Equal(t, "1|1", p.primary.Query(t, "SELECT * FROM leadership.hello()"), "it answers, and knows of no failover")
}

package all_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// docs/backends.md refers to these tests for what differs from store to store.

// The range of the TTL. A TTL that no server grants is refused when the store is opened; one that this server does not
// grant, by Cast. In both cases a permanent error names the option, the value and the limit.
func TestTTLRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, ttl string
		atOpen    bool
		limit     string
	}{
		{"zookeeper", "0.5ms", true, "from 1ms"},
		{"zookeeper", "999ms", false, "grants 1s"},    // 2 ticks
		{"zookeeper", "10001ms", false, "grants 10s"}, // 20 ticks
		{"etcd", "999ms", true, "from 1s"},
		{"etcd", "2500ms", true, "multiple of 1s"},
		{"etcd", "1s", false, "begins at 2s"}, // 1.5 election timeouts, rounded up
		{"consul", "999ms", true, "from 1s to 24h0m0s"},
		{"consul", "24h1s", true, "from 1s to 24h0m0s"},
		{"memory", "999us", true, "from 1ms to 24h0m0s"},
	} {
		t.Run(c.kind+" "+c.ttl, func(t *testing.T) {
			t.Parallel()
			st, err := store.Open(soon(t), on(t, c.kind, "ttl="+c.ttl), nil)
			require.Equal(t, c.atOpen, err != nil)
			if err == nil {
				_, err = st.Cast(soon(t), newElection(), "own")
				require.NoError(t, st.Close())
			}
			given, _ := time.ParseDuration(c.ttl)
			requireInvalid(t, err, "ttl", given.String(), c.limit)
			require.True(t, store.Permanent(err))
		})
	}
	for kind, least := range map[string]string{"zookeeper": "1s", "etcd": "2s", "consul": "1s"} {
		t.Run(kind+" "+least, func(t *testing.T) {
			t.Parallel()
			cast(t, open(t, on(t, kind, "ttl="+least), nil), newElection(), "own")
		})
	}
}

// A leader is cut off, which for its service is the same as a crash. In every store it is over by its own clock before
// its successor is first; how long that takes differs. The times are logged and not checked, since the machine might be
// busy.
func TestSuccessorLeadsAfterTheLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind       string
		ttl, bound time.Duration
	}{
		{"zookeeper", 2 * time.Second, 3 * time.Second}, // and 2 ticks
		{"etcd", 2 * time.Second, 3 * time.Second},
		{"consul", time.Second, 2500 * time.Millisecond}, // with a check
		{"memory", time.Second, time.Second},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			raw, election, network := on(t, c.kind, "ttl="+c.ttl.String()), newElection(), conformance.NewNetwork()
			st := open(t, raw, network)
			var line interface {
				Cut()
				Heal()
			} = network
			if st, ok := st.(*memory.Store); ok {
				line = st.Faults()
			}
			defer line.Heal()
			leader, _ := lead(t, st, election, "leader")
			next := cast(t, open(t, raw, nil), election, "next")
			line.Cut()
			cut, deadline := time.Now(), leader.Lease().Last().Deadline
			require.NoError(t, next.Wait(soon(t)))
			first := time.Now()
			require.Zero(t, leader.Lease().Remaining())
			require.True(t, deadline.Before(first), "the lease of the one that was cut off ended %v too late", deadline.Sub(first))
			t.Logf("TTL %v: the lease ended %v after the cut, the successor was first after %v; the bound is %v",
				c.ttl, deadline.Sub(cut), first.Sub(cut), c.bound)
		})
	}
}

// An operator ends the session, or deletes the ballot. The holder notices at once, not with the next renewal, and casts
// a new ballot.
func TestEndsEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind    string
		ttl     time.Duration
		session bool // the session is ended, not the ballot
	}{
		{"zookeeper", 10 * time.Second, false}, // sessions: TestSessionClosedFromOutside of its package
		{"etcd", 30 * time.Second, false},
		{"etcd", 30 * time.Second, true},
		{"consul", 30 * time.Second, false},
		{"consul", 30 * time.Second, true},
		{"consul", 9 * time.Second, true}, // with a check
	} {
		what := map[bool]string{false: "ballot", true: "session"}[c.session]
		t.Run(c.kind+" "+what+" "+c.ttl.String(), func(t *testing.T) {
			t.Parallel()
			raw, election := on(t, c.kind, "ttl="+c.ttl.String()), newElection()
			o := newOperator(t, c.kind, address(t, c.kind))
			st := open(t, raw, nil)
			leader, _ := lead(t, st, election, "leader")
			other := cast(t, st, newElection(), "another election")
			var terms []*leadership.Term
			for range 20 { // a single one might be in time by luck
				candidate, err := leadership.NewCandidate(st, newElection(), "term", nil)
				require.NoError(t, err)
				t.Cleanup(candidate.Stop)
				term, err := candidate.Campaign(soon(t))
				require.NoError(t, err)
				terms = append(terms, term)
			}
			next := cast(t, open(t, raw, nil), election, "next")
			var ballot entry
			for _, e := range o.list(t, ballotsOf(c.kind, election)) {
				if e.created == leader.Token() {
					ballot = e
				}
			}
			meter, began := stall.Watch(t), time.Now()
			if c.session {
				o.end(t, ballot.session)
			} else {
				o.remove(t, ballot.path)
			}
			lost(t, leader)
			if c.ttl != 9*time.Second { // renewed within a quarter of that: see TestSessionEndsEarly of package consul
				require.Less(t, time.Since(began), c.ttl/6+meter.Stalled(), "it waited for a renewal; %v", meter)
			}
			if c.session {
				lost(t, other)
				for _, term := range terms {
					<-term.Context().Done()
					require.ErrorIs(t, context.Cause(term.Context()), store.ErrLost)
					require.NotContains(t, context.Cause(term.Context()).Error(), "renewed", "it was told why")
				}
			} else {
				require.NoError(t, other.Err())
				require.NotZero(t, other.Lease().Remaining(), "the session goes on")
			}
			require.NoError(t, next.Wait(soon(t)))
			require.Greater(t, cast(t, st, election, "again").Token(), next.Token())
		})
	}
	t.Run("memory session", func(t *testing.T) {
		t.Parallel()
		st := open(t, on(t, "memory", "ttl=1h"), nil)
		leader, _ := lead(t, st, newElection(), "leader")
		st.(*memory.Store).Faults().Expire()
		lost(t, leader)
	})
}

// Where clients in any language find the acknowledged value, byte by byte: the path follows from the election's name.
// The token is the service's index of the ballot's creation, the revision that of the acknowledgement.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const value = "db2:4567\x00\xff é\n"
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			election := newElection()
			st := open(t, on(t, kind, "ttl=10s"), nil)
			b, leader := lead(t, st, election, value)
			o := newOperator(t, kind, address(t, kind))
			ack := o.get(t, place(kind, election))
			require.Equal(t, value, ack.value)
			require.Equal(t, leader, store.Leader{Value: value, Revision: ack.modified})
			found := false
			for _, e := range o.list(t, ballotsOf(kind, election)) {
				if e.path != ack.path {
					require.False(t, found, "one ballot alone")
					found = true
					require.Equal(t, b.Token(), e.created)
					require.Equal(t, ack.session, e.session, "the two go together")
				}
			}
			require.True(t, found)
		})
	}
}

// Followers see a value that another client has written at the acknowledgement's key; on Consul only if a session holds
// the key.
func TestForeignValueAtTheAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			election := newElection()
			st := open(t, on(t, kind, "ttl=10s"), nil)
			b := cast(t, st, election, "own")
			o := newOperator(t, kind, address(t, kind))
			o.put(t, place(kind, election), "foreign")
			want := store.Leader{Value: "foreign", Revision: o.get(t, place(kind, election)).modified}
			if kind == "consul" {
				want = store.Leader{}
			}
			eventually(t, func() bool {
				seen, err := storetest.Leader(soon(t), st, election, nil)
				return err == nil && seen == want
			}, "followers are shown it, or nothing")
			require.NoError(t, b.Wait(soon(t)))
			leader, err := b.Acknowledge(soon(t), "own")
			require.NoError(t, err)
			require.Equal(t, "own", leader.Value, "it blocks no acknowledgement")
		})
	}
}

// ZooKeeper's nodes of an election stay after its candidates have gone. Clearing the election removes them.
func TestNodesStayUntilCleared(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, on(t, "zookeeper", "ttl=10s"), nil)
	lead(t, st, election, "own")
	require.NoError(t, st.Close())
	o := newOperator(t, "zookeeper", address(t, "zookeeper")).(*zooKeeperOperator)
	dir := ballotsOf("zookeeper", election)
	eventually(t, func() bool { return len(o.names(t, dir)) == 0 }, "the ballot and the acknowledgement go")
	require.Equal(t, "0", o.get(t, dir).session, "the node of the election stays")
	require.NoError(t, open(t, on(t, "zookeeper", "ttl=10s"), nil).Clear(soon(t), election))
	require.NotContains(t, o.names(t, path.Dir(dir)), path.Base(dir))
}

// place is the path of the acknowledged value, with the default settings.
func place(kind, election string) string {
	if kind == "zookeeper" {
		return ballotsOf(kind, election) + "/leader_ack"
	}
	return "leadership/" + election
}

// ballotsOf is the path that the ballots are below.
func ballotsOf(kind, election string) string {
	if kind == "zookeeper" {
		return "/_zkelection/" + strings.ReplaceAll(election, "/", "__")
	}
	return "leadership/" + election + "/_ballots"
}

// A server's data are replaced by an earlier copy. A candidate that has led since refuses tokens that are not higher
// than its last, raises them, and leads again.
func TestRestored(t *testing.T) {
	t.Parallel()
	type server interface {
		Addrs() []string
		Member(i int) *testserver.Member
	}
	for kind, start := range map[string]func(t *testing.T) server{
		"zookeeper": func(t *testing.T) server { return testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{}) },
		"etcd":      func(t *testing.T) server { return testserver.NewEtcd(t, testserver.EtcdConfig{}) },
		"consul":    func(t *testing.T) server { return testserver.NewConsul(t, testserver.ConsulConfig{}) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := start(t)
			member := srv.Member(0)
			change := func(data func() error) {
				require.NoError(t, member.Stop())
				require.NoError(t, data())
				require.NoError(t, member.Start(soon(t)))
			}
			change(member.SaveData)
			o := newOperator(t, kind, srv.Addrs()[0])
			for range 100 {
				o.write(t)
			}

			st := open(t, kind+"://"+srv.Addrs()[0]+"/?ttl=2s", nil)
			refused, terms := make(chan struct{}, 1), make(chan uint64, 100)
			c, err := leadership.NewCandidate(st, newElection(), "own", &leadership.CandidateOptions{Events: func(e leadership.Event) {
				if e.Kind == leadership.AttemptFailed && errors.Is(e.Err, leadership.ErrTokenRegressed) {
					select {
					case refused <- struct{}{}:
					default:
					}
				}
			}})
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() {
				ended <- c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
					terms <- term.Token()
					<-ctx.Done()
					return nil
				})
			}()
			defer func() { c.Stop(); require.NoError(t, <-ended) }()
			first := storetest.Receive(t, terms, "the first term")

			change(member.RestoreData)
			select {
			case <-refused:
			case token := <-terms:
				require.FailNow(t, "it leads", "with token %d after %d", token, first)
			case <-soon(t).Done():
				require.FailNow(t, "no token was refused")
			}
			require.Greater(t, storetest.Receive(t, terms, "the next term"), first)
		})
	}
}

// Each fence takes the ballots of its own store alone.
func TestFencesTakeTheirOwnBallots(t *testing.T) {
	t.Parallel()
	fences := map[string]func(store.Ballot) error{
		"zookeeper": func(b store.Ballot) error { _, err := zookeeper.Fence(b); return err },
		"etcd":      func(b store.Ballot) error { _, err := etcd.Fence(b); return err },
		"consul":    func(b store.Ballot) error { _, err := consul.Fence(b); return err },
	}
	ballots := map[string]store.Ballot{"nil": nil}
	for _, kind := range kinds {
		ballots[kind], _ = lead(t, open(t, on(t, kind, "ttl=10s"), nil), newElection(), "own")
	}
	for of, fence := range fences {
		for kind, b := range ballots {
			if err := fence(b); kind == of {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported, "%s.Fence of a ballot of %s", of, kind)
			}
		}
	}
}

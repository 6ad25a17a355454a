package all_test

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// docs/backends.md refers to these tests for what differs from store to store.

// The range of the TTL. A TTL that no server grants is refused when the store is opened; one that this server does not
// grant, by Cast. In both cases a permanent error names the option, the value and the limit.
func TestTTLRanges(t *testing.T) {
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
			began := time.Now()
			if c.session {
				o.end(t, ballot.session)
			} else {
				o.remove(t, ballot.path)
			}
			lost(t, leader)
			require.Less(t, time.Since(began), c.ttl/6, "it waited for a renewal")
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
		st := open(t, on(t, "memory", "ttl=30s"), nil)
		leader, _ := lead(t, st, newElection(), "leader")
		began := time.Now()
		st.(*memory.Store).Faults().Expire()
		lost(t, leader)
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// Where clients in any language find the acknowledged value, byte by byte: the path follows from the election's name.
// The token is the service's index of the ballot's creation, the revision that of the acknowledgement.
func TestPlaces(t *testing.T) {
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

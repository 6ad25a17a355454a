package zookeeper_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newEnsemble starts three servers.
func newEnsemble(t *testing.T) *testserver.ZooKeeper {
	t.Helper()
	return testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{
		Members: 3,
		Extra:   quick,
	})
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := newEnsemble(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, ensemble *testserver.ZooKeeper)
	}{
		{"leader of the ensemble killed", ensembleLeaderKilled},
		{"member of the follower behind", memberBehind},
		{"leader of the ensemble alone", func(t *testing.T, e *testserver.ZooKeeper) { leaderAlone(t, e, func(*tap) {}) }},
		{"leader of the ensemble alone, new connection", func(t *testing.T, e *testserver.ZooKeeper) {
			leaderAlone(t, e, (*tap).breakOff)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, ensemble) })
		serves(t, ensemble)
	}
}

// The ensemble elects another leader in less than the TTL: the candidate goes on leading in the same term.
func ensembleLeaderKilled(t *testing.T, ensemble *testserver.ZooKeeper) {
	election := newElection()
	st := open(t, zookeeper.Config{Servers: ensemble.Addrs()})
	c := contend(t, st, election, "own")
	eventually(t, c.IsLeader, "it leads")
	waiter := contend(t, open(t, zookeeper.Config{Servers: ensemble.Addrs()}), election, "waiter")
	oneLeader(t, c, waiter)
	term := receive(t, c.Terms, "the term")
	member, err := ensemble.Leader()
	require.NoError(t, err)
	confirmedAgain(t, st)
	require.NoError(t, ensemble.Member(member).Kill())
	require.NoError(t, ensemble.Ready(soon(t)))
	confirmedAgain(t, st)
	require.NoError(t, term.Context().Err(), "a change within the ensemble is none of the election's business")
	require.True(t, c.IsLeader())
	require.NoError(t, ensemble.Member(member).Start(soon(t)))
	require.NoError(t, ensemble.Ready(soon(t)))
	eventually(t, func() bool { return len(values(t, st, election)) == 2 }, "both stand")
}

// The leader changes while the follower's member is paused. When the member resumes, it might answer from the old
// state. A read of the present leader must not accept that answer.
func memberBehind(t *testing.T, ensemble *testserver.ZooKeeper) {
	election := newElection()
	leader, err := ensemble.Leader()
	require.NoError(t, err)
	behind := (leader + 1) % len(ensemble.Addrs())
	b := castFirst(t, open(t, zookeeper.Config{Servers: ensemble.Addrs()[leader : leader+1]}), election, "own")
	tp := newTap(t, nil)
	st := open(t, zookeeper.Config{Servers: ensemble.Addrs()[behind : behind+1], Dial: tp.Dial})
	for i := range 10 {
		_, err := st.Observe(soon(t), election, nil)
		require.NoError(t, err)
		require.NoError(t, ensemble.Member(behind).Pause())
		changed := acknowledge(t, b, fmt.Sprint(i))
		sent := func() int { return tp.Count(opGetData, dir(election)) + tp.Count(opMulti, theRoot) }
		before := sent()
		observed := make(chan store.Known, 1)
		go func() {
			known, err := st.Observe(soon(t), election, nil)
			assert.NoError(t, err)
			observed <- known
		}()
		eventually(t, func() bool { return sent() > before }, "the request has been sent")
		require.NoError(t, ensemble.Member(behind).Resume())
		require.Equal(t, changed, receive(t, observed, "the leader").Leader)
	}
}

// serves waits until a plain client gets a session from each member. After members were paused, ZooKeeper 3.8 sometimes
// elects a leader that commits nothing: the ensemble reports that it serves, and opens no session for minutes. No
// client can help that, so all members are restarted then, with a log.
func serves(t *testing.T, ensemble *testserver.ZooKeeper) {
	t.Helper()
	for tries := 0; ; tries++ {
		require.NoError(t, ensemble.Ready(soon(t)))
		silent := slices.IndexFunc(ensemble.Addrs(), func(addr string) bool { return !opensSession(t, addr) })
		if silent < 0 {
			return
		}
		require.Less(t, tries, 2, "no plain client gets a session from member %d", silent)
		t.Logf("no plain client gets a session from member %d, though it says that it serves: all are restarted", silent)
		for i := range ensemble.Addrs() {
			require.NoError(t, ensemble.Member(i).Kill())
		}
		for i := range ensemble.Addrs() {
			require.NoError(t, ensemble.Member(i).Start(soon(t)))
		}
	}
}

// opensSession reports whether a plain client gets a session, which takes a commit.
func opensSession(t *testing.T, addr string) bool {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, long, zk.WithLogger(silent{}))
	require.NoError(t, err)
	defer conn.Close()
	limit := time.After(long)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return true
			}
		case <-limit:
			return false
		}
	}
}

// For some ticks, the ensemble's leader does not notice that it has lost the others, which might have elected another
// leader. Its answers renew no lease and confirm nothing, neither to a request nor to a handshake.
func leaderAlone(t *testing.T, ensemble *testserver.ZooKeeper, then func(*tap)) {
	leader, err := ensemble.Leader()
	require.NoError(t, err)
	tp := newTap(t, nil)
	st := open(t, zookeeper.Config{Servers: ensemble.Addrs()[leader : leader+1], TTL: middling, Dial: tp.Dial})
	election := newElection()
	b := castFirst(t, st, election, "own")
	f, err := leadership.NewFollower(st, election, nil)
	require.NoError(t, err)
	defer func() { f.Stop(); <-f.Done() }()
	f.Start()
	eventually(t, func() bool { return !f.AsOf().IsZero() }, "the follower knows that there is no leader")
	for i := range ensemble.Addrs() {
		if i != leader {
			require.NoError(t, ensemble.Member(i).Pause())
			defer ensemble.Member(i).Resume()
		}
	}
	alone := time.Now()
	then(tp)
	eventually(t, func() bool {
		answer, err := ensemble.Command(soon(t), leader, "srvr")
		return err == nil && !strings.Contains(answer, "Mode: leader")
	}, "it has noticed")
	require.False(t, f.AsOf().After(alone))
	last := b.Lease().Last()
	require.True(t, last.Sent.Before(alone), "renewed by what was sent %v later, until %v later", last.Sent.Sub(alone), last.Deadline.Sub(alone))
	for i := range ensemble.Addrs() {
		if i != leader {
			require.NoError(t, ensemble.Member(i).Resume())
		}
	}
	eventually(t, func() bool { return f.AsOf().After(alone) }, "the follower is confirmed")
}

package etcd

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// cluster is three servers, and an election whose leader and waiter are clients of all of them.
type cluster struct {
	*testserver.Etcd
	first, second *contender
}

func newCluster(t *testing.T, ttl time.Duration) *cluster {
	t.Helper()
	c := &cluster{Etcd: testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, Extra: fast})}
	config := Config{Endpoints: c.Addrs(), TTL: ttl}
	election := newElection()
	c.first = contend(t, open(t, config), election, "first")
	receive(t, c.first.Terms, "the first leads")
	c.second = contend(t, open(t, config), election, "second")
	eventually(t, func() bool { return len(values(t, c.second.Store, election)) == 2 }, "both stand")
	oneLeader(t, c.first, c.second)
	return c
}

// leader waits until one member leads.
func (c *cluster) leader(t *testing.T) *testserver.Member {
	t.Helper()
	i := -1
	eventually(t, func() bool {
		var err error
		i, err = c.Leader()
		return err == nil
	}, "a leader of the cluster")
	return c.Member(i)
}

// handsOver makes the first candidate resign: the second leads.
func (c *cluster) handsOver(t *testing.T) {
	t.Helper()
	c.first.End()
	receive(t, c.second.Terms, "the second leads")
	require.True(t, c.second.IsLeader())
}

// The cluster's leader is killed, and then each member restarted in turn: the term goes on.
func TestMembersRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, long/2) // each confirmation comes within a quarter of that
	m := c.leader(t)
	require.NoError(t, m.Kill())
	confirmedAgain(t, c.first.Store)
	require.NoError(t, m.Start(soon(t)))
	for i := range 3 {
		require.NoError(t, c.Ready(soon(t)))
		require.NoError(t, c.Member(i).Stop())
		confirmedAgain(t, c.first.Store)
		require.NoError(t, c.Member(i).Start(soon(t)))
	}
	require.True(t, c.first.IsLeader())
	require.Empty(t, c.first.Terms, "it is still the first term")
	c.handsOver(t)
}

// Each member in turn is paused with all its connections open: the client moves to another member while the lease
// holds. Without a renewal the lease ends after two thirds of the TTL. A member that led and resumes after three
// quarters of the TTL might end the session: by its own clock, the last renewal that it saw, up to TTL/4 before the
// pause, is a TTL ago.
func TestMemberPaused(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // an election of the cluster's leader fits into what a renewal has left
	const lapse = ttl * 27 / 40
	c := newCluster(t, ttl)
	for i := range 3 {
		require.NoError(t, c.Ready(soon(t)))
		require.NoError(t, c.Member(i).Pause())
		start := time.Now()
		eventually(t, func() bool { // the lease would have ended by then
			require.True(t, c.first.IsLeader(), "member %d, after %v", i, time.Since(start))
			return time.Since(start) > lapse
		}, "the time")
		require.NoError(t, c.Member(i).Resume())
	}
	require.Empty(t, c.first.Terms, "it is still the first term")
	require.NoError(t, c.Ready(soon(t)))
	require.NoError(t, c.leader(t).Pause())
	c.handsOver(t)
}

// There is no majority for longer than the TTL, and so no leader. One leads again when there is a majority.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, middling)
	require.NoError(t, c.Member(0).Kill())
	require.NoError(t, c.Member(1).Kill())
	eventually(t, func() bool { return !c.first.IsLeader() }, "the end of the lease")
	start := time.Now()
	eventually(t, func() bool {
		require.False(t, c.first.IsLeader() || c.second.IsLeader())
		return time.Since(start) > middling
	}, "the end of a TTL")
	require.NoError(t, c.Member(0).Start(soon(t)))
	require.NoError(t, c.Member(1).Start(soon(t)))
	require.NoError(t, c.Ready(soon(t)))
	leaderAmong(t, c.first, c.second)
}

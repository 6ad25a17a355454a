package zookeeper_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The client library can't take a watch back, so followers that start and stop share one.
func TestStoppedFollowersLeaveOneWatch(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, zookeeper.Config{})
	for range 20 {
		f, err := leadership.NewFollower(st, election, nil)
		require.NoError(t, err)
		for range f.Changes(soon(t)) {
			break
		}
		f.Stop()
		eventually(t, func() bool { return st.Watches() <= 1 }, "one watch at most is left") // when what it had asked for has been answered
	}
}

// The node of an election is asked for once, and again when it was missing.
func TestNodeOfAnElectionIsKnown(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	st, tp := openTapped(t)
	asked := func() int { return tp.Count(opCreate, dir(election)+"\xff") } // no data
	for range 3 {
		require.NoError(t, castFirst(t, st, election, "own").Withdraw(soon(t)))
		require.Equal(t, 1, asked())
	}
	require.NoError(t, conn.Delete(dir(election), -1))
	castFirst(t, st, election, "own")
	require.Equal(t, 2, asked())
}

// Many elections share one session and its confirmations, and all survive a broken connection.
func TestManyElections(t *testing.T) {
	t.Parallel()
	const elections = 300
	prefix := newElection()
	st, tp := openTapped(t)
	ballots := make([]store.Ballot, elections)
	errs := make([]error, elections)
	var casting sync.WaitGroup
	for i := range elections {
		casting.Go(func() {
			ballots[i], errs[i] = st.Cast(soon(t), fmt.Sprint(prefix, "/", i), "own")
		})
	}
	casting.Wait()
	for i, b := range ballots {
		require.NoError(t, errs[i])
		require.NoError(t, b.Wait(soon(t)))
	}
	confirmedAgain(t, st)
	syncs, start := tp.Count(opMulti, theRoot), time.Now()
	confirmedAgain(t, st)
	confirmedAgain(t, st)
	most := 3 + int(time.Since(start)/(long/24)) // as many over a slow link; one each TTL/6 as a rule
	require.LessOrEqual(t, tp.Count(opMulti, theRoot)-syncs, most, "one heartbeat for all")

	tp.breakOff()
	confirmedAgain(t, st)
	conn := operator(t)
	lastElection := fmt.Sprint(prefix, "/", elections-1)
	for _, b := range ballots {
		require.NoError(t, b.Err())
	}
	require.NoError(t, conn.Delete(find(t, conn, lastElection, "own"), -1))
	lost(t, ballots[elections-1])
	next := castFirst(t, open(t, zookeeper.Config{}), lastElection, "next")
	require.Greater(t, next.Token(), ballots[elections-1].Token())
}

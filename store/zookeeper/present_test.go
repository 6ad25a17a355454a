package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The store's server may lag behind. A read of the present leader is sent behind a barrier, and its result is right as
// of the barrier.
func TestPresentLeaderIsReadBehindABarrier(t *testing.T) {
	const calls = 20
	st, tp := openTapped(t)
	election := newElection()
	barriers := tp.Count(opMulti, theRoot)
	for range calls {
		began := time.Now()
		known, err := st.Observe(soon(t), election, nil)
		require.NoError(t, err)
		require.False(t, known.AsOf.Before(began))
	}
	require.GreaterOrEqual(t, tp.Count(opMulti, theRoot)-barriers, calls)
}

// A change soon after such a read is reported by another read, and is not taken for an older state.
func TestChangeAfterThePresentWasRead(t *testing.T) {
	election := newElection()
	b := castFirst(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "own")
	st, tp := openTapped(t)
	acknowledge(t, b, "before")
	for _, value := range []string{"a", "b", "c", "d", "e"} {
		known, err := st.Observe(soon(t), election, nil)
		require.NoError(t, err)
		reads := tp.Count(opGetData, dir(election))
		leader := acknowledge(t, b, value)
		known = news(t, st, election, known)
		require.Equal(t, leader, known.Leader)
		require.LessOrEqual(t, tp.Count(opGetData, dir(election))-reads, 3, "one, and one now and then")
	}
}

// news waits for another leader.
func news(t *testing.T, st store.Store, election string, prev store.Known) store.Known {
	t.Helper()
	for known := prev; ; {
		var err error
		known, err = st.Observe(soon(t), election, &known)
		require.NoError(t, err)
		if known.Leader != prev.Leader {
			return known
		}
	}
}

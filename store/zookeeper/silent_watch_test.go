package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// openDeaf opens a store that receives no events. It resyncs often: with each confirmation.
func openDeaf(t *testing.T) (*zookeeper.Store, *tap) {
	t.Helper()
	tp := newTap(t, nil)
	tp.loseEvents()
	return open(t, zookeeper.Config{TTL: middling, Dial: tp.Dial}), tp
}

// The watch on the ballot ahead is silent: a resync finds that it is gone.
func TestWatchOnThePredecessorIsSilent(t *testing.T) {
	t.Parallel()
	election := newElection()
	other := open(t, zookeeper.Config{})
	first, second := castFirst(t, other, election, "first"), cast(t, other, election, "second")
	st, _ := openDeaf(t)
	b := cast(t, st, election, "own")
	require.NoError(t, second.Withdraw(soon(t)))
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, b.Wait(soon(t)))
}

// A follower's watch is silent: it still learns of each leader, one resync later.
func TestWatchOnTheLeaderIsSilent(t *testing.T) {
	t.Parallel()
	election := newElection()
	other := open(t, zookeeper.Config{})
	st, _ := openDeaf(t)
	follower := newFollower(t, st, election)
	require.Equal(t, "", receive(t, follower, "the first state"))
	for range 2 {
		b := castFirst(t, other, election, "own")
		acknowledge(t, b, "leader")
		require.Equal(t, "leader", receive(t, follower, "the leader"))
		require.NoError(t, b.Withdraw(soon(t)))
		require.Equal(t, "", receive(t, follower, "its end"))
	}
}

// After a reconnection the read that sets a watch again is late. Until it is answered, that watch proves nothing. The
// client library sets none by itself.
func TestWatchesAreSetAgainLate(t *testing.T) {
	t.Parallel()
	election := newElection()
	other := open(t, zookeeper.Config{})
	b := castFirst(t, other, election, "leader")
	one := acknowledge(t, b, "one")
	tp := newTap(t, nil)
	st := open(t, zookeeper.Config{Dial: tp.Dial})
	for range 50 { // it resyncs one of them at a time
		_, err := st.Observe(soon(t), newElection(), nil)
		require.NoError(t, err)
	}
	storetest.Confirmed(t, st, election)
	known, err := st.Observe(soon(t), election, nil)
	require.NoError(t, err)
	require.Equal(t, one, known.Leader)
	late := tp.catch(t, hold, opGetData, dir(election)+"/leader_ack\x01") // with the flag
	tp.breakOff()
	receive(t, late.caught, "the leader is read again")
	two := acknowledge(t, b, "two")
	changed := time.Now()
	confirmedAgain(t, st)
	late.letGo()
	for known.Leader != two {
		known, err = st.Observe(soon(t), election, &known)
		require.NoError(t, err)
		require.True(t, known.Leader == two || !known.AsOf.After(changed), "the leader before is said to lead %v later", known.AsOf.Sub(changed))
	}
	storetest.Confirmed(t, st, election)
	require.Zero(t, tp.Count(opSetWatches))
}

package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
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

// A call ends before its read is answered. The server has a watch then, and is not asked for another.
func TestAbandonedReadLeavesOneWatch(t *testing.T) {
	t.Parallel()
	election := newElection()
	castFirst(t, open(t, zookeeper.Config{}), election, "leader")
	path := find(t, operator(t), election, "leader")
	st, tp := openTapped(t)
	_, err := st.Session(soon(t)) // the driver does not wait for long
	require.NoError(t, err)
	read := tp.catch(t, holdReply, opGetData, path)
	ctx, cancel := context.WithCancel(soon(t))
	watch := func() error {
		_, err := st.Driver().WatchEntry(ctx, path, func(engine.News) {})
		return err
	}
	abandoned := make(chan error, 1)
	go func() { abandoned <- watch() }()
	receive(t, read.arrived, "the answer")
	cancel()
	require.Error(t, receive(t, abandoned, "the end of the call"))
	read.letGo()
	eventually(t, func() bool { return st.Armed(soon(t), path) }, "the answer is taken")
	ctx = soon(t)
	require.NoError(t, watch())
	require.Equal(t, 1, tp.Count(opGetData, path+"\x01"))
}

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
	late := tp.catch(t, hold, opExists, dir(election)+"/leader_ack\x01") // with the flag
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

// The leader is read in one round trip, whether there is one or not: the second request does not wait for the first answer.
func TestLeaderIsReadInOneRoundTrip(t *testing.T) {
	t.Parallel()
	st, tp := openTapped(t)
	led, empty := newElection(), newElection()
	acknowledge(t, castFirst(t, st, led, "leader"), "leader")
	for _, election := range []string{led, empty} {
		ack := dir(election) + "/leader_ack"
		first := tp.catch(t, holdReply, opExists, ack)
		observed := make(chan error, 1)
		go func() {
			_, err := st.Observe(soon(t), election, nil)
			observed <- err
		}()
		receive(t, first.caught, "the first request")
		eventually(t, func() bool { return tp.Count(opGetData, ack) == 1 }, "the second request")
		first.letGo()
		require.NoError(t, receive(t, observed, "the leader"))
		require.Equal(t, 1, tp.Count(opGetData, ack))
	}
}

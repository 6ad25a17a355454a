package zookeeper_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The predecessor is deleted between the list and the watch, and so are those ahead of it.
func TestPredecessorGoesBeforeItIsWatched(t *testing.T) {
	t.Parallel()
	for ahead := 1; ahead <= 3; ahead++ {
		for gone := 1; gone <= ahead; gone++ {
			t.Run(fmt.Sprintf("%d of %d", gone, ahead), func(t *testing.T) {
				election := newElection()
				other := open(t, zookeeper.Config{})
				var before []store.Ballot
				for i := range ahead {
					before = append(before, cast(t, other, election, fmt.Sprint(i)))
				}
				st, tp := openTapped(t)
				listed := tp.catch(t, holdReply, opList, dir(election))
				type outcome struct {
					store.Ballot
					err error
				}
				done := make(chan outcome, 1)
				go func() {
					b, err := st.Cast(soon(t), election, "own")
					done <- outcome{b, err}
				}()
				receive(t, listed.arrived, "the list")
				for i := ahead - gone; i < ahead; i++ { // the nearest ones
					require.NoError(t, before[i].Withdraw(soon(t)))
				}
				listed.letGo()
				o := receive(t, done, "the campaign")
				require.NoError(t, o.err)
				for i := range ahead - gone {
					waiting(t, o.Ballot)
					require.NoError(t, before[i].Withdraw(soon(t)))
				}
				require.NoError(t, o.Wait(soon(t)))
			})
		}
	}
}

// The only ballot ahead is removed. The next candidate leads without another request. Those behind it learn nothing and
// send nothing.
func TestSuccessorAsksNothing(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	other := open(t, zookeeper.Config{})
	first := castFirst(t, other, election, "first")
	type waiter struct {
		*tap
		store.Ballot
	}
	var queue []waiter
	for i := range 3 {
		st, tp := openTapped(t)
		queue = append(queue, waiter{tp, cast(t, st, election, fmt.Sprint(i))})
	}
	ops := []string{opGetData, opExists, opList, opMulti, opCreate}
	count := func(tp *tap) (n int) {
		for _, op := range ops {
			n += tp.Count(op)
		}
		return n
	}
	// A resync comes with each confirmation, and might fall into the measured time. Then the test is repeated.
	for range 20 {
		before := []int{count(queue[0].tap), count(queue[1].tap), count(queue[2].tap)}
		require.NoError(t, conn.Delete(find(t, conn, election, "first"), -1))
		require.NoError(t, queue[0].Wait(soon(t)))
		after := []int{count(queue[0].tap), count(queue[1].tap), count(queue[2].tap)}
		lost(t, first)
		waiting(t, queue[1].Ballot)
		if fmt.Sprint(before) == fmt.Sprint(after) {
			return
		}
		t.Log("requests before and after:", before, after)
		election = newElection()
		first = castFirst(t, other, election, "first")
		for i := range queue {
			st, tp := openTapped(t)
			queue[i] = waiter{tp, cast(t, st, election, fmt.Sprint(i))}
		}
	}
	require.Fail(t, "a change of leader cost requests each time")
}

// Candidacies behind one leader leave nothing behind: no goroutine, and no watch in the store, in the client library or,
// except one on the leader's ballot, at the server. No other test runs meanwhile: it counts goroutines.
func TestCandidaciesLeaveNothing(t *testing.T) {
	election := newElection()
	conn := operator(t)
	castFirst(t, open(t, zookeeper.Config{}), election, "leader")
	path := find(t, conn, election, "leader")
	st, tp := openTapped(t)
	round := func() {
		b := cast(t, st, election, "waiter")
		require.NoError(t, b.Withdraw(soon(t)))
	}
	round()
	goroutines := runtime.NumGoroutine()
	for range 100 {
		round()
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines }, "the goroutines end")
	eventually(t, func() bool { return st.Watches() <= 1 }, "the watches end, but for one that was not asked for")
	require.Equal(t, 1, tp.Count(opGetData, path+"\x01"), "the first asks for a watch, and reads the value; the others do not")
	tp.breakOff()
	confirmedAgain(t, st)
	require.Zero(t, tp.Count(opSetWatches), "the library has none to set again")
	require.Equal(t, []string{path[len(dir(election))+1:]}, list(t, conn, dir(election)))
}

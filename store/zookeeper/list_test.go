package zookeeper_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Nodes that are no ballots block no candidate, are not listed, and stay. A node whose name is that of a ballot counts as
// one, ephemeral or not, of any client: otherwise candidates could disagree. An operator has to remove it.
func TestForeignNodesAmongTheBallots(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	foreign := []string{"ballot", "ballot1e9", "ballot_x_-2147483649", "other0000000001"}
	// The counter wraps after 2^31 ballots, and begins anew when an operator has removed the election's node: the lowest
	// number is first, even if its node is the younger one. The store's ballots get numbers above 9.
	ballots := []string{"ballot_late_0000000007", "ballot0000000003", "ballot_x_-000000002", "ballot-000000003"}
	for _, name := range append(foreign, ballots...) {
		_, err := conn.Create(dir(election)+"/"+name, []byte(name), zk.FlagPersistent, world)
		require.NoError(t, err)
	}
	st := open(t, zookeeper.Config{})
	first := cast(t, st, election, "first")
	slices.Reverse(ballots)
	for i, name := range ballots {
		require.Equal(t, append(slices.Clone(ballots[i:]), "first"), values(t, st, election))
		waiting(t, first)
		_, err := first.Acknowledge(soon(t), "first")
		require.ErrorIs(t, err, store.ErrNotFirst)
		head, err := st.Driver().First(soon(t), election)
		require.NoError(t, err)
		require.Equal(t, []string{"", "x", "", "late"}[i], head.Nonce)
		require.NoError(t, conn.Delete(dir(election)+"/"+name, -1))
	}
	require.NoError(t, first.Wait(soon(t)))
	acknowledge(t, first, "first")
	require.NoError(t, first.Withdraw(soon(t)))
	require.ElementsMatch(t, foreign, list(t, conn, dir(election)))
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
	join := func(value, ahead string) waiter {
		st, tp := openTapped(t)
		path := find(t, conn, election, ahead)
		b := cast(t, st, election, value)
		eventually(t, func() bool { return st.Armed(soon(t), path) }, "the watch on the ballot ahead")
		return waiter{tp, b}
	}
	queue := []waiter{join("0", "first"), join("1", "0"), join("2", "1")}
	ops := []string{opGetData, opExists, opList, opMulti, opCreate}
	count := func(tp *tap) (n int) {
		for _, op := range ops {
			n += tp.Count(op)
		}
		return n
	}
	// A resync comes with each confirmation, and might fall into the measured time. Then the test is repeated.
	for range 20 {
		eventually(t, func() bool { return count(queue[2].tap) >= count(queue[1].tap) }, "the last one watches the ballot ahead")
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
		queue = []waiter{join("0", "first"), join("1", "0"), join("2", "1")}
	}
	require.Fail(t, "a change of leader cost requests each time")
}

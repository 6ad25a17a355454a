package zookeeper_test

import (
	"context"
	"fmt"
	"runtime"
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
	foreign := []string{"ballot", "ballot0", "ballot 1", "ballot+000000001", "ballot1e9", "ballotX", "ballot99999999999", "ballot_x_-2147483649", "other0000000001", "x", "leader"}
	// The counter wraps after 2^31 ballots, and begins anew when an operator has removed the election's node: the lowest
	// number is first, also if its node is the younger one. The store's ballots get numbers above 9.
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
	second := cast(t, open(t, zookeeper.Config{}), election, "second")
	waiting(t, second)
	require.Equal(t, []string{"first", "second"}, values(t, st, election))
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	require.NoError(t, second.Withdraw(soon(t)))
	require.ElementsMatch(t, foreign, list(t, conn, dir(election)))
}

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

// neverFirst checks that a ballot is lost without having been first at any moment. Call it before the ballot is
// deleted.
func neverFirst(t *testing.T, b store.Ballot) (check func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.Wait(context.Background()) }()
	return func() {
		t.Helper()
		require.ErrorIs(t, receive(t, done, "the loss of the ballot"), store.ErrLost, "it was first for a moment")
	}
}

// deletions delete a waiter's ballot and the one ahead of it in one transaction, so that the events arrive one right
// after the other.
var deletions = map[string]func(own, before string) []any{
	"deleted": func(own, before string) []any {
		return []any{&zk.DeleteRequest{Path: own, Version: -1}, &zk.DeleteRequest{Path: before, Version: -1}}
	},
	// The first event for the waiter's ballot uses up the watch, so the second is not seen.
	"changed and deleted": func(own, before string) []any {
		return []any{
			&zk.SetDataRequest{Path: own, Data: []byte("changed"), Version: -1},
			&zk.DeleteRequest{Path: own, Version: -1},
			&zk.DeleteRequest{Path: before, Version: -1},
		}
	},
}

// A waiter whose ballot was deleted does not lead when its predecessor is deleted, in either order, and whatever the
// waiter is doing.
func TestOwnBallotDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	for name, ops := range deletions {
		for during, fate := range map[string]fate{"a read that found nothing": holdReply, "a read": hold} {
			t.Run(name+" during "+during, func(t *testing.T) {
				st, tp := openTapped(t)
				other := open(t, zookeeper.Config{})
				for range 12 { // which of two events is handled first is random
					election := newElection()
					castFirst(t, other, election, "before")
					check := neverFirst(t, cast(t, st, election, "own"))
					own, before := find(t, conn, election, "own"), find(t, conn, election, "before")
					// An event that changes nothing makes the waiter read its own ballot and then the one ahead.
					read := tp.catch(t, fate, opGetData, before)
					_, err := conn.Set(before, []byte("before"), -1)
					require.NoError(t, err)
					receive(t, read.caught, "the waiter reads")
					if fate == holdReply {
						receive(t, read.arrived, "the waiter's answer")
					}
					_, err = conn.Multi(ops(own, before)...)
					require.NoError(t, err)
					read.letGo()
					check()
				}
			})
		}
	}
}

// An operator removes all nodes of the election, its parent included, while candidates wait and lead. They create the
// nodes and cast ballots again, and one leads.
func TestParentDeleted(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	follower := open(t, zookeeper.Config{})
	var all []*contender
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, contend(t, open(t, zookeeper.Config{}), election, name))
	}
	// There might be two leaders for a moment: an operator's removal ends terms early, and a successor might learn of
	// it first.
	var token uint64
	for range 5 {
		eventually(t, func() bool { return len(values(t, follower, election)) == 3 }, "all three stand")
		leader := leaderAmong(t, all...)
		term := receive(t, leader.Terms, "the leader's term")
		for term.Context().Err() != nil { // an earlier one
			term = receive(t, leader.Terms, "the leader's term")
		}
		require.Greater(t, term.Token(), token)
		token = term.Token()
		removeAll(t, conn, dir(election))
		receive(t, term.Context().Done(), "the term ends")
	}
	leaderAmong(t, all...)
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

// Candidacies behind one leader leave nothing behind: no goroutine, and no watch in the store, in the client library or,
// except one on the leader's ballot, at the server. No other test runs meanwhile: it counts goroutines.
func TestCandidaciesLeaveNothing(t *testing.T) {
	election := newElection()
	conn := operator(t)
	leader := castFirst(t, open(t, zookeeper.Config{}), election, "leader")
	path := find(t, conn, election, "leader")
	st, tp := openTapped(t)
	round := func() {
		b := cast(t, st, election, "waiter")
		require.NoError(t, b.Withdraw(soon(t)))
	}
	first := cast(t, st, election, "waiter")
	eventually(t, func() bool { return st.Armed(soon(t), path) }, "the watch on the leader's ballot")
	require.NoError(t, first.Withdraw(soon(t)))
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
	round()
	require.NoError(t, leader.Withdraw(soon(t)))
	eventually(t, func() bool { return st.Watches() <= 1 }, "the watch on its ballot goes with it; that of confirmedAgain stays")
}

package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

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

// A client with the session's id closes it: all of its ballots are lost at once, and the next campaign opens another.
func TestSessionClosedFromOutside(t *testing.T) {
	t.Parallel()
	st, tp := openTapped(t)
	var ballots []store.Ballot
	for range 3 {
		ballots = append(ballots, castFirst(t, st, newElection(), "own"))
	}
	start := time.Now()
	tp.endSession(t, sharedServer(t).Addrs()[0])
	for _, b := range ballots {
		lost(t, b)
		eventually(t, func() bool { return b.Lease().Remaining() == 0 }, "the end of the lease") // the ballot learns first
	}
	require.Less(t, time.Since(start), long/2, "it is noticed before the lease would run out")
	b := castFirst(t, st, newElection(), "own")
	eventually(t, func() bool { _, ok := b.Lease().Span(); return ok }, "the lease of the new session")
}

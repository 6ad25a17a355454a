package etcd_test

import (
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An operator revokes the leader's lease: the leader notices at once, its successor leads, and the leader's next
// ballot is on another lease.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election, elsewhere := newElection(), newElection()
	st := open(t, etcd.Config{TTL: long})
	first := contend(t, st, election, "first")
	term := receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, etcd.Config{TTL: long}), election, "second")
	eventually(t, func() bool { return len(values(t, st, election)) == 2 }, "both stand")
	other := castFirst(t, st, elsewhere, "other")
	_, lease := ballotOf(t, client, election, "first")
	_, err := client.Revoke(soon(t), lease)
	require.NoError(t, err)
	receive(t, term.Context().Done(), "the end of the term")
	receive(t, second.Terms, "the second leads")
	lost(t, other)
	eventually(t, func() bool { return len(values(t, st, election)) == 2 }, "the first stands again")
	_, next := ballotOf(t, client, election, "first")
	require.NotEqual(t, lease, next)
	second.End()
	require.Greater(t, receive(t, first.Terms, "the first leads again").Token(), term.Token())
}

// An operator deletes ballots. Their candidates notice, the one behind moves up, and no other is affected.
func TestBallotsDeleted(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	stores := []*etcd.Store{open(t, etcd.Config{TTL: long}), open(t, etcd.Config{TTL: long})}
	var ballots []store.Ballot
	for i := range 6 {
		ballots = append(ballots, cast(t, stores[i%2], election, fmt.Sprint(i)))
	}
	remove := func(i int) {
		key, _ := ballotOf(t, client, election, fmt.Sprint(i))
		_, err := client.Delete(soon(t), key)
		require.NoError(t, err)
		lost(t, ballots[i])
	}
	require.NoError(t, ballots[0].Wait(soon(t)))
	remove(1) // in the middle
	waiting(t, ballots[2])
	remove(0)
	require.NoError(t, ballots[2].Wait(soon(t)))
	require.NotZero(t, ballots[2].Lease().Remaining(), "the lease goes on")
	acknowledge(t, ballots[2], "2")
	remove(2)
	require.NoError(t, ballots[3].Wait(soon(t)))
	leader, err := storetest.Leader(soon(t), stores[0], election, nil)
	require.NoError(t, err)
	require.Equal(t, "2", leader.Value, "an acknowledgement that outlived its ballot")
	require.NoError(t, ballots[2].Withdraw(soon(t)))
	leader, err = storetest.Leader(soon(t), stores[0], election, nil)
	require.NoError(t, err)
	require.Zero(t, leader, "is removed by its maker")
	_, err = ballots[2].Acknowledge(soon(t), "2")
	require.ErrorIs(t, err, store.ErrLost)
}

// Another client deletes a ballot. When its candidate resigns, the next leader's acknowledgement stays.
func TestWithdrawAfterDeletion(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	st := open(t, etcd.Config{TTL: long})
	first := castFirst(t, st, election, "first")
	acknowledge(t, first, "same value")
	second := cast(t, st, election, "second")
	key, _ := ballotOf(t, client, election, "first")
	_, err := client.Delete(soon(t), key)
	require.NoError(t, err)
	require.NoError(t, second.Wait(soon(t)))
	leader := acknowledge(t, second, "same value")
	for range 3 {
		require.NoError(t, first.Withdraw(soon(t)))
		seen, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		require.Equal(t, leader, seen)
	}
	require.NoError(t, second.Err())
}

// The acknowledgement is deleted or overwritten. Followers see what is there, and the leader goes on and can
// acknowledge again. When it resigns it removes the key, if that is its own.
func TestAcknowledgementMeddledWith(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	st, follower := open(t, etcd.Config{TTL: long}), open(t, etcd.Config{TTL: long})
	b := castFirst(t, st, election, "own")
	leader := acknowledge(t, b, "own")
	for _, meddle := range []clientv3.Op{
		clientv3.OpDelete(ackKey(election)),
		clientv3.OpPut(ackKey(election), "another client's"),
		clientv3.OpPut(ackKey(election), ""),
	} {
		_, err := client.Do(soon(t), meddle)
		require.NoError(t, err)
		seen, err := storetest.Leader(soon(t), follower, election, &leader)
		require.NoError(t, err)
		require.Equal(t, string(meddle.ValueBytes()), seen.Value)
		again := acknowledge(t, b, "own")
		require.Greater(t, again.Revision, leader.Revision)
		leader, err = storetest.Leader(soon(t), follower, election, &seen)
		require.NoError(t, err)
		require.Equal(t, again, leader)
	}
	require.NoError(t, b.Err())
	require.NoError(t, b.Withdraw(soon(t)))
	require.Empty(t, keys(t, client, ackKey(election)))
}

// All keys are deleted in one step, while candidates of one process and of others wait. All cast new ballots, and each
// leads in turn. No old ballot leads or hangs.
func TestAllDeleted(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	one := open(t, etcd.Config{TTL: long})
	var all []*contender
	for i, st := range []*etcd.Store{one, one, open(t, etcd.Config{TTL: long}), one, open(t, etcd.Config{TTL: long})} {
		all = append(all, contend(t, st, election, fmt.Sprint(i)))
	}
	for round := range 5 {
		eventually(t, func() bool { return len(values(t, one, election)) == len(all) }, "all stand, round %d", round)
		term := receive(t, leaderAmong(t, all...).Terms, "an acknowledgement, round %d", round)
		before := keys(t, client, ballotKeys(election))
		_, err := client.Delete(soon(t), ackKey(election), clientv3.WithPrefix())
		require.NoError(t, err)
		receive(t, term.Context().Done(), "the end of the term, round %d", round)
		eventually(t, func() bool { return len(values(t, one, election)) == len(all) }, "all stand again, round %d", round)
		require.NotContains(t, before, keys(t, client, ballotKeys(election))[0])
	}
	for range all {
		c := leaderAmong(t, all...)
		receive(t, c.Terms, "its term")
		c.End()
		all = without(all, c)
		if len(all) == 0 {
			break
		}
	}
	require.Empty(t, keys(t, client, ackKey(election)))
}

func without(all []*contender, c *contender) []*contender {
	var rest []*contender
	for _, other := range all {
		if other != c {
			rest = append(rest, other)
		}
	}
	return rest
}

// Two ballots of one lease are deleted in one step, one behind the other. The second is not first at any moment.
func TestBallotsOfOneLeaseDeletedTogether(t *testing.T) {
	t.Parallel()
	client := operator(t)
	st, other := open(t, etcd.Config{TTL: long}), open(t, etcd.Config{TTL: long})
	for range 30 {
		election := newElection()
		first, second := castFirst(t, st, election, "first"), cast(t, st, election, "second")
		third := cast(t, other, election, "third")
		one, _ := ballotOf(t, client, election, "first")
		two, _ := ballotOf(t, client, election, "second")
		_, err := client.Txn(soon(t)).Then(clientv3.OpDelete(one), clientv3.OpDelete(two)).Commit()
		require.NoError(t, err)
		require.ErrorIs(t, second.Wait(soon(t)), store.ErrLost)
		lost(t, first)
		lost(t, second)
		_, err = second.Acknowledge(soon(t), "second")
		require.ErrorIs(t, err, store.ErrLost)
		require.NoError(t, third.Wait(soon(t)))
		require.NoError(t, third.Withdraw(soon(t)))
	}
}

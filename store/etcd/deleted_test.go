package etcd_test

import (
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

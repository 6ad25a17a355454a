package etcd

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The acknowledgement is deleted or overwritten. Followers see what is there, and the leader goes on and can
// acknowledge again. When it resigns it removes the key, if that is its own.
func TestAcknowledgementMeddledWith(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	st, follower := open(t, Config{}), open(t, Config{})
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

// A leader that acknowledges again sends three requests: the first is refused, since the key is held, the second reads who
// holds the key, and the third replaces the value.
func TestCostOfAcknowledgingAgain(t *testing.T) {
	t.Parallel()
	var b between
	_, s := opened(t, b.intercept)
	e := enter(t, s, "x", engine.Nonce{Name: "n", Turn: 1})
	first, err := s.Acknowledge(soon(t), e, "first")
	require.NoError(t, err)
	requests := 0
	count := func(*pb.TxnRequest) error { requests++; return nil }
	b.before.Store(&count)
	second, err := s.Acknowledge(soon(t), e, "second")
	require.NoError(t, err)
	require.Greater(t, second, first)
	require.Equal(t, 3, requests)
}

// A live session that never had a ballot in the queue holds the acknowledgement's key. The takeover fails with an error
// that names the session, and the key stays as it is, also when the ballot is withdrawn. When that session is over, the
// next term acknowledges.
func TestAcknowledgementHasAnotherHolder(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	lease, err := client.Grant(soon(t), 600)
	require.NoError(t, err)
	_, err = client.Put(soon(t), ackKey(election), "a leader of another program", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	st := open(t, Config{})
	holds := func(value string) {
		t.Helper()
		leader, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		require.Equal(t, value, leader.Value)
	}
	for range 2 {
		b := castFirst(t, st, election, "own")
		_, err := b.Acknowledge(soon(t), "own")
		require.Error(t, err)
		require.ErrorContains(t, err, "a leader of another program")
		require.ErrorContains(t, err, ackKey(election))
		require.NotErrorIs(t, err, store.ErrUnknownOutcome, "or it would be tried again in the same term")
		require.NotErrorIs(t, err, store.ErrUnavailable)
		require.False(t, store.Permanent(err), "or Run would end")
		require.NoError(t, b.Err(), "the ballot stands")
		holds("a leader of another program")
		require.NoError(t, b.Withdraw(soon(t)))
		holds("a leader of another program")
	}
	_, err = client.Revoke(soon(t), lease.ID) // the other program ends
	require.NoError(t, err)
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	holds("own")
	require.NoError(t, b.Withdraw(soon(t)))
	holds("")
}

// A session that had a ballot in the queue left a value at the key. The next leader replaces it at once, whether it
// stood ahead of that ballot or behind it. It also replaces a value that no session holds.
func TestAcknowledgementIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	client := operator(t)
	deleteBallot := func(election, value string) {
		t.Helper()
		key, _ := ballotOf(t, client, election, value)
		_, err := client.Delete(soon(t), key)
		require.NoError(t, err)
	}
	st, other := open(t, Config{}), open(t, Config{})
	t.Run("of one that was ahead", func(t *testing.T) {
		election := newElection()
		acknowledge(t, castFirst(t, st, election, "first"), "first")
		second := cast(t, other, election, "second")
		deleteBallot(election, "first")
		require.NoError(t, second.Wait(soon(t)))
		acknowledge(t, second, "second")
	})
	t.Run("of one that was ahead of those ahead", func(t *testing.T) {
		election := newElection()
		acknowledge(t, castFirst(t, st, election, "first"), "first")
		second, third := cast(t, other, election, "second"), cast(t, other, election, "third")
		deleteBallot(election, "first")
		require.NoError(t, second.Wait(soon(t)))
		require.NoError(t, second.Withdraw(soon(t)))
		require.NoError(t, third.Wait(soon(t)))
		acknowledge(t, third, "third")
	})
	t.Run("of one that stands behind", func(t *testing.T) {
		election := newElection()
		acknowledge(t, castFirst(t, st, election, "first"), "first")
		deleteBallot(election, "first")
		second := castFirst(t, other, election, "second")
		cast(t, st, election, "first again")
		acknowledge(t, second, "second")
	})
	t.Run("without a holder", func(t *testing.T) {
		election := newElection()
		_, err := client.Put(soon(t), ackKey(election), "foreign")
		require.NoError(t, err)
		b := castFirst(t, st, election, "own")
		acknowledge(t, b, "own")
		require.NoError(t, b.Withdraw(soon(t)))
		require.Empty(t, keys(t, client, ackKey(election)))
	})
}

// The cluster has compacted the revision at which a session wrote, and the session has no ballot now. Nothing shows
// that it ever had one, so the takeover fails. It succeeds once the session has a ballot again. The test has a server
// of its own, since peers that use the client library's election fail after a compaction.
func TestHolderIsForgotten(t *testing.T) {
	t.Parallel()
	addrs := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast}).Addrs()
	client := operator(t, addrs...)
	election := newElection()
	first := open(t, Config{Endpoints: addrs})
	leader := acknowledge(t, castFirst(t, first, election, "first"), "first")
	key, _ := ballotOf(t, client, election, "first")
	_, err := client.Delete(soon(t), key)
	require.NoError(t, err)
	next := castFirst(t, open(t, Config{Endpoints: addrs}), election, "next")
	_, err = client.Compact(soon(t), int64(leader.Revision)+1)
	require.NoError(t, err)
	_, err = next.Acknowledge(soon(t), "next")
	require.ErrorContains(t, err, "another program leads, or the key is left over")
	require.False(t, store.Permanent(err))
	cast(t, first, election, "first again")
	acknowledge(t, next, "next")
}

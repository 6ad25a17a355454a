package etcd_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Elections over a client that belongs to the caller. Afterwards the client is as before, and the lease is gone.
func TestCallersClient(t *testing.T) {
	t.Parallel()
	election := newElection()
	client := operator(t)
	one, two := open(t, etcd.Config{Client: client, TTL: long}), open(t, etcd.Config{Client: client, TTL: long})
	first := contend(t, one, election, "first")
	receive(t, first.Terms, "the first leads")
	second := contend(t, two, election, "second")
	eventually(t, func() bool { return len(values(t, two, election)) == 2 }, "both stand")
	oneLeader(t, first, second)
	_, lease := ballotOf(t, client, election, "first")
	require.NoError(t, one.Close())
	require.ErrorIs(t, receive(t, first.Ended, "the end of Run"), store.ErrClosed)
	receive(t, second.Terms, "the second leads")
	info, err := client.TimeToLive(soon(t), lease)
	require.NoError(t, err)
	require.EqualValues(t, -1, info.TTL)
	second.End()
	require.NoError(t, two.Close())
	require.Empty(t, keys(t, client, ackKey(election)))
	_, err = client.Put(soon(t), election, "the caller's")
	require.NoError(t, err)
	_, err = client.Delete(soon(t), election)
	require.NoError(t, err)
}

// The caller closes its client before the store. Everything ends with an error that names the reason, and Close
// returns.
func TestCallerClosesTheClient(t *testing.T) {
	t.Parallel()
	election := newElection()
	client, err := clientv3.New(clientv3.Config{Endpoints: sharedServer(t).Addrs()})
	require.NoError(t, err)
	st := open(t, etcd.Config{Client: client, TTL: ttl})
	b := castFirst(t, st, election, "own")
	waiter := cast(t, st, election, "waiter")
	c := contend(t, st, election, "candidate")
	eventually(t, func() bool { return len(values(t, st, election)) == 3 }, "all stand")
	pending := make(chan error, 1)
	go func() { _, err := storetest.Leader(soon(t), st, election, &store.Leader{}); pending <- err }()
	eventually(t, func() bool { return st.Watches() == 6 }, "all watch") // one, two and two ballots, and the acknowledgement
	require.NoError(t, client.Close())
	lost(t, b)
	lost(t, waiter)
	require.ErrorIs(t, receive(t, pending, "the end of the pending call"), store.ErrClosed)
	require.ErrorIs(t, receive(t, c.Ended, "the end of Run"), store.ErrClosed)
	_, err = st.Cast(soon(t), election, "x")
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorContains(t, err, "client")
	require.Error(t, b.Withdraw(soon(t)), "the ballot is not known to be gone")
	require.NoError(t, st.Close())
	// The keys are removed when the TTL ends.
	castFirst(t, open(t, etcd.Config{TTL: ttl}), election, "next")
}

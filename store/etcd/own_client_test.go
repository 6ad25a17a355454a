package etcd_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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

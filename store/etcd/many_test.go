package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// inMany casts a ballot in each of n elections and follows each.
func inMany(t *testing.T, st *etcd.Store, n int) {
	t.Helper()
	prefix := newElection()
	ctx, cancel := context.WithCancel(context.Background())
	var followers sync.WaitGroup
	t.Cleanup(func() { cancel(); followers.Wait() })
	for i := range n {
		election := fmt.Sprintf("%s/%d", prefix, i)
		b := castFirst(t, st, election, "own")
		leader, err := b.Acknowledge(ctx, "own")
		for errors.Is(err, store.ErrUnknownOutcome) { // of a thousand, one may take long on a slow machine
			leader, err = b.Acknowledge(ctx, "own")
		}
		require.NoError(t, err)
		followers.Go(func() { _, _ = storetest.Leader(ctx, st, election, &leader) })
	}
	eventually(t, func() bool { return st.Watches() == 2*n }, "all watch")
}

func TestOneLeaseAndOneStream(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: long})
	inMany(t, st, 200)
	require.Equal(t, 1, tp.Count("LeaseGrant"))
	require.Equal(t, 1, tp.opened("LeaseKeepAlive"))
	require.Equal(t, 1, tp.opened("Watch"))
	eventually(t, func() bool { // an election that is read again gets another watch, and the one before is cancelled
		return tp.Count("create_request")-tp.Count("cancel_request") == 400
	}, "a watch for each ballot and each follower")
	require.Zero(t, tp.Count("start_revision"), "a watch of the past is told late, in a loop that runs every 100 ms")
	require.Equal(t, 400, tp.Count("Txn", "request_put"), "one to enter and one to acknowledge")
}

// Entering takes one round trip once there is a lease, and so does acknowledging. A candidate that had one ballot ahead
// leads without a round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	election := newElection()
	const ttl = 10 * long // what is asked again when an answer is late would count
	first := castFirst(t, open(t, etcd.Config{TTL: ttl}), election, "first")
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: ttl})
	castFirst(t, st, newElection(), "so that there is a lease")
	looks := func() int { return tp.Count(readTxn, election) - tp.Count(readTxn, election+`/_ballots/" range_end`) } // but for the audit
	writes, before := tp.Count("Txn compare"), looks()
	look := tp.catch(t, readTxn, election+"/_ballots/")
	b := cast(t, st, election, "own")
	require.Equal(t, writes+1, tp.Count("Txn compare"))
	receive(t, look.caught, "it looks without making its caller wait")
	look.letGo()
	eventually(t, func() bool { return st.Watches() == 3 }, "it watches")
	waiting(t, b)
	require.Equal(t, before+2, looks(), "at the nearest, and at its own")
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, b.Wait(soon(t)))
	require.Equal(t, before+2, looks())
	acknowledge(t, b, "own")
	require.Equal(t, writes+2, tp.Count("Txn compare"))
}

package etcd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// peer is a candidate of the client library's own election, which etcdctl elect uses.
func peer(t *testing.T, client *clientv3.Client, election string) *concurrency.Election {
	t.Helper()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(20))
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return concurrency.NewElection(session, "leadership/"+election+"/_ballots")
}

func campaignAsPeer(t *testing.T, e *concurrency.Election, value string) <-chan error {
	won := make(chan error, 1)
	go func() { won <- e.Campaign(soon(t), value) }()
	return won
}

// Candidates of both kinds stand in one queue, whichever comes first.
func TestPeers(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	st := open(t, etcd.Config{TTL: long})
	standing := func(want ...string) {
		t.Helper()
		eventually(t, func() bool { return len(values(t, st, election)) == len(want) }, "%v stand", want)
		require.Equal(t, want, values(t, st, election))
	}
	a, c := peer(t, client, election), peer(t, client, election)
	require.NoError(t, receive(t, campaignAsPeer(t, a, "a"), "a leads"))
	b := cast(t, st, election, "b")
	wonC := campaignAsPeer(t, c, "c")
	standing("a", "b", "c")
	d := cast(t, st, election, "d")
	waiting(t, b)
	require.NoError(t, a.Resign(soon(t)))
	require.NoError(t, b.Wait(soon(t)))
	leader, err := c.Leader(soon(t))
	require.NoError(t, err)
	require.Equal(t, "b", string(leader.Kvs[0].Value), "what the peers see as leader")
	require.EqualValues(t, b.Token(), leader.Kvs[0].CreateRevision)
	require.Empty(t, wonC)
	waiting(t, d)
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, receive(t, wonC, "c leads"))
	waiting(t, d)
	require.NoError(t, c.Proclaim(soon(t), "c, changed")) // another value of the same ballot
	standing("c, changed", "d")
	waiting(t, d)
	require.NoError(t, c.Resign(soon(t)))
	require.NoError(t, d.Wait(soon(t)))
	acknowledge(t, d, "d")
}

// A ballot of the client library's own election is listed as such, and a request to resign is refused: its owner would never
// read it. A peer that puts another value is not one that was asked.
func TestPeersAreForeign(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, etcd.Config{TTL: long})
	a := peer(t, operator(t), election)
	require.NoError(t, receive(t, campaignAsPeer(t, a, "a"), "a leads"))
	require.NoError(t, a.Proclaim(soon(t), "a, changed"))
	b := cast(t, st, election, "b")
	token := uint64(a.Rev())
	require.ErrorIs(t, st.RequestResignation(soon(t), election, token), errors.ErrUnsupported)
	require.NoError(t, st.RequestResignation(soon(t), election, b.Token()))
	list, err := st.Ballots(soon(t), election)
	require.NoError(t, err)
	require.Equal(t, []store.Standing{
		{Value: "a, changed", Token: token, Foreign: true}, {Value: "b", Token: b.Token(), Asked: true},
	}, list)
}

// The history from which the waiter's watch starts is compacted, up to the newest revision, and again while it waits.
// The test has a server of its own, since peers that use the client library's election fail after a compaction.
func TestCompaction(t *testing.T) {
	t.Parallel()
	addrs := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast}).Addrs()
	client := operator(t, addrs...)
	election := newElection()
	compact := func() {
		t.Helper()
		resp, err := client.Put(soon(t), election, "")
		require.NoError(t, err)
		_, err = client.Compact(soon(t), resp.Header.Revision, clientv3.WithCompactPhysical())
		require.NoError(t, err)
	}
	st := open(t, etcd.Config{Endpoints: addrs, TTL: long})
	first := castFirst(t, st, election, "first")
	compact()
	second := cast(t, open(t, etcd.Config{Endpoints: addrs, TTL: long}), election, "second")
	followed := make(chan store.Leader, 1)
	go func() {
		leader, _ := storetest.Leader(context.Background(), st, election, &store.Leader{})
		followed <- leader
	}()
	compact()
	waiting(t, second)
	compact()
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	compact()
	leader := acknowledge(t, second, "second")
	require.Equal(t, leader, receive(t, followed, "the follower"))
}

// A hold keeps the peers from leading, too. They know no acknowledgement: they take a hold that is first in line for the
// leader, as docs/command.md says.
func TestPeersSeeAHold(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, etcd.Config{TTL: long})
	first := cast(t, st, election, "first")
	require.NoError(t, first.Wait(soon(t)))
	h, err := operate.NewHold(soon(t), st, election, "new disks")
	require.NoError(t, err)
	a := peer(t, operator(t), election)
	won := campaignAsPeer(t, a, "a")
	eventually(t, func() bool { return len(values(t, st, election)) == 3 }, "the peer stands")
	require.NoError(t, first.Withdraw(soon(t)))
	receive(t, h.First(), "the hold is first in line")
	seen := receive(t, a.Observe(soon(t)), "what the peer observes")
	reason, held := operate.Held(string(seen.Kvs[0].Value))
	require.True(t, held)
	require.Equal(t, "new disks", reason)
	require.Empty(t, won)
	require.NoError(t, h.Release(soon(t)))
	require.NoError(t, receive(t, won, "the peer leads"))
}

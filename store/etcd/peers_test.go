package etcd

import (
	"testing"

	"github.com/go-leadership/leadership/operate"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// concurrent returns a candidate of the client library's own election, which etcdctl elect uses.
func concurrent(t *testing.T, client *clientv3.Client, election string) *concurrency.Election {
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
	st := open(t, Config{})
	standing := func(want ...string) {
		t.Helper()
		eventually(t, func() bool { return len(values(t, st, election)) == len(want) }, "%v stand", want)
		require.Equal(t, want, values(t, st, election))
	}
	a, c := concurrent(t, client, election), concurrent(t, client, election)
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

// A hold keeps the peers from leading, too. They know no acknowledgement: they take a hold that is first in line for the
// leader, as docs/command.md says.
func TestPeersSeeAHold(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, Config{})
	first := cast(t, st, election, "first")
	require.NoError(t, first.Wait(soon(t)))
	h, err := operate.NewHold(soon(t), st, election, "new disks")
	require.NoError(t, err)
	a := concurrent(t, operator(t), election)
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

package etcd

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// concurrent returns a candidate of the client library's own election, which etcdctl elect uses, in the queue of an election.
func concurrent(t *testing.T, client *clientv3.Client, election string) *concurrency.Election {
	t.Helper()
	return concurrentAt(t, client, ballotKeys(election)[:len(ballotKeys(election))-1])
}

func concurrentAt(t *testing.T, client *clientv3.Client, name string) *concurrency.Election {
	t.Helper()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(20))
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return concurrency.NewElection(session, name)
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

// A program moves from concurrency.Election, and takes its name for the prefix and the election's name: the queues are two.
// No ballot is cast while an old candidate stands, and all can see that one does. An old candidate waits for the ballots that
// were cast before it came.
func TestPeersUnderTheElectionsOwnName(t *testing.T) {
	t.Parallel()
	client := operator(t)
	prefix := "/" + newElection()
	st := open(t, Config{Prefix: prefix})
	refused := func(want ...string) {
		t.Helper()
		_, err := st.Cast(soon(t), "leader", "refused")
		require.ErrorIs(t, err, errBeside)
		require.ErrorContains(t, err, prefix+"/leader/")
		eventually(t, func() bool { return len(values(t, st, "leader")) == len(want) }, "the refused ballot has gone")
		standing, err := st.Ballots(soon(t), "leader")
		require.NoError(t, err)
		for i, b := range standing {
			require.Equal(t, want[i], b.Value)
			require.Equal(t, want[i] != "new", b.Foreign)
		}
	}
	old, waiter := concurrentAt(t, client, prefix+"/leader"), concurrentAt(t, client, prefix+"/leader")
	require.NoError(t, receive(t, campaignAsPeer(t, old, "old"), "the old one leads"))
	refused("old")
	require.NoError(t, old.Resign(soon(t)))
	b := castFirst(t, st, "leader", "new")
	won := campaignAsPeer(t, waiter, "old")
	eventually(t, func() bool { return len(values(t, st, "leader")) == 2 }, "the old one stands")
	refused("new", "old")
	require.Empty(t, won)
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, receive(t, won, "the old one leads"))
	refused("old")
}

// The old name has a slash at the beginning, and the prefix has none, or the reverse. Such candidates do not wait for one
// another, so none stands here while one stands there.
func TestPeersUnderATwinOfTheName(t *testing.T) {
	t.Parallel()
	client, name := operator(t), newElection()
	for prefix, other := range map[string]string{"a" + name: "/a" + name, "/b" + name: "b" + name} {
		old := concurrentAt(t, client, other+"/leader")
		require.NoError(t, receive(t, campaignAsPeer(t, old, "old"), "the old one leads"))
		st := open(t, Config{Prefix: prefix})
		_, err := st.Cast(soon(t), "leader", "refused")
		require.ErrorIs(t, err, errBeside)
		require.ErrorContains(t, err, strconv.Quote(prefix+"/leader"))
		require.Equal(t, []string{"old"}, values(t, st, "leader"))
		require.NoError(t, old.Resign(soon(t)))
		castFirst(t, st, "leader", "new")
	}
}

// An election whose name goes on as a lease is named is no candidate of another kind.
func TestElectionNamedAsALeaseIsNoPeer(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, Config{})
	acknowledge(t, castFirst(t, st, election+"/cafe", "below"), "below")
	castFirst(t, st, election, "above")
	require.Equal(t, []string{"above"}, values(t, st, election))
}

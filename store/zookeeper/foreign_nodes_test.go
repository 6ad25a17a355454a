package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Nodes that are no ballots block no candidate, are not listed, and stay.
func TestForeignNodesAmongTheBallots(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	foreign := []string{"ballot", "ballot0", "ballot 1", "ballot+000000001", "ballot1e9", "ballotX", "ballot99999999999", "ballot_x_-2147483649", "other0000000001", "x", "leader"}
	for _, name := range foreign {
		_, err := conn.Create(dir(election)+"/"+name, []byte("foreign"), zk.FlagPersistent, world)
		require.NoError(t, err)
	}
	config := zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}
	st := open(t, config)
	first := castFirst(t, st, election, "first")
	acknowledge(t, first, "first")
	second := cast(t, open(t, config), election, "second")
	waiting(t, second)
	require.Equal(t, []string{"first", "second"}, values(t, st, election))
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	require.NoError(t, second.Withdraw(soon(t)))
	require.ElementsMatch(t, foreign, list(t, conn, dir(election)))
}

// A node whose name is that of a ballot counts as one, ephemeral or not, of any client: otherwise candidates could
// disagree. An operator has to remove it.
func TestForeignBallotCounts(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	path, err := conn.Create(dir(election)+"/ballot", []byte("by hand"), zk.FlagSequence, world)
	require.NoError(t, err)
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	b := cast(t, st, election, "ours")
	waiting(t, b)
	_, err = b.Acknowledge(soon(t), "ours")
	require.ErrorIs(t, err, store.ErrNotFirst)
	require.Equal(t, []string{"by hand", "ours"}, values(t, st, election))
	require.NoError(t, conn.Delete(path, -1))
	require.NoError(t, b.Wait(soon(t)))
}

// A node that another client made at the acknowledgement's path is replaced, unless it has children. Then the error
// says what to do, and acknowledging works as soon as that is done.
func TestAcknowledgementBehindAForeignNode(t *testing.T) {
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, ack+"/child")
	b := castFirst(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "ours")
	_, err := b.Acknowledge(soon(t), "ours")
	require.ErrorIs(t, err, zk.ErrNotEmpty)
	require.ErrorContains(t, err, ack+" was made by another program")
	require.ErrorContains(t, err, "delete it")
	require.False(t, store.Permanent(err), "it can be cured while the candidate goes on")
	require.NoError(t, conn.Delete(ack+"/child", -1))
	acknowledge(t, b, "ours")
	require.NoError(t, b.Withdraw(soon(t)))
	require.Empty(t, list(t, conn, dir(election)))
}

// The counter wraps after 2^31 ballots of one election. This test makes such nodes by hand.
func TestBallotsAcrossTheWrap(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	// These have the numbers -3 and -2. The store's ballot gets 2 or so, which is behind them.
	for _, name := range []string{"ballot-000000003", "ballot_x_-000000002"} {
		_, err := conn.Create(dir(election)+"/"+name, []byte(name), zk.FlagPersistent, world)
		require.NoError(t, err)
	}
	b := cast(t, st, election, "ours")
	waiting(t, b)
	require.Equal(t, []string{"ballot-000000003", "ballot_x_-000000002", "ours"}, values(t, st, election))
	require.NoError(t, conn.Delete(dir(election)+"/ballot-000000003", -1))
	waiting(t, b)
	require.NoError(t, conn.Delete(dir(election)+"/ballot_x_-000000002", -1))
	require.NoError(t, b.Wait(soon(t)))
}

// The head of a queue is the ballot with the lowest number, also if its node is the younger one, as after a removal of
// the election's node has set the counter back.
func TestHeadIsFirstByNumber(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	for _, name := range []string{"ballot_late_0000000007", "ballot_early_0000000003"} {
		_, err := conn.Create(dir(election)+"/"+name, []byte(name), zk.FlagEphemeral, world)
		require.NoError(t, err)
	}
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	head, err := st.Driver().First(soon(t), election)
	require.NoError(t, err)
	require.Equal(t, "early", head.Nonce)
	require.Equal(t, []string{"ballot_early_0000000003", "ballot_late_0000000007"}, values(t, st, election))
}

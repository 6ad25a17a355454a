package zookeeper_test

import (
	"slices"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Nodes that are no ballots block no candidate, are not listed, and stay. A node whose name is that of a ballot counts as
// one, ephemeral or not, of any client: otherwise candidates could disagree. An operator has to remove it.
func TestForeignNodesAmongTheBallots(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	foreign := []string{"ballot", "ballot0", "ballot 1", "ballot+000000001", "ballot1e9", "ballotX", "ballot99999999999", "ballot_x_-2147483649", "other0000000001", "x", "leader"}
	// The counter wraps after 2^31 ballots, and begins anew when an operator has removed the election's node: the lowest
	// number is first, also if its node is the younger one. The store's ballots get numbers above 9.
	ballots := []string{"ballot_late_0000000007", "ballot0000000003", "ballot_x_-000000002", "ballot-000000003"}
	for _, name := range append(foreign, ballots...) {
		_, err := conn.Create(dir(election)+"/"+name, []byte(name), zk.FlagPersistent, world)
		require.NoError(t, err)
	}
	st := open(t, zookeeper.Config{})
	first := cast(t, st, election, "first")
	slices.Reverse(ballots)
	for i, name := range ballots {
		require.Equal(t, append(slices.Clone(ballots[i:]), "first"), values(t, st, election))
		waiting(t, first)
		_, err := first.Acknowledge(soon(t), "first")
		require.ErrorIs(t, err, store.ErrNotFirst)
		head, err := st.Driver().First(soon(t), election)
		require.NoError(t, err)
		require.Equal(t, []string{"", "x", "", "late"}[i], head.Nonce)
		require.NoError(t, conn.Delete(dir(election)+"/"+name, -1))
	}
	require.NoError(t, first.Wait(soon(t)))
	acknowledge(t, first, "first")
	second := cast(t, open(t, zookeeper.Config{}), election, "second")
	waiting(t, second)
	require.Equal(t, []string{"first", "second"}, values(t, st, election))
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	require.NoError(t, second.Withdraw(soon(t)))
	require.ElementsMatch(t, foreign, list(t, conn, dir(election)))
}

// A node that another client made at the acknowledgement's path is replaced, unless it has children. Then the error
// says what to do, and acknowledging works as soon as that is done.
func TestAcknowledgementBehindAForeignNode(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, ack+"/child")
	b := castFirst(t, open(t, zookeeper.Config{}), election, "ours")
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

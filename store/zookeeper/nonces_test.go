package zookeeper

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoncesTellBallotsWithoutAnOwner(t *testing.T) {
	ours, others := newNonces(), newNonces()
	require.NotEqual(t, ours.stem, others.stem)
	name := func(nonce string) string { return gemLayout.ballotStem(nonce) + "0000000007" }
	first, second := ours.take(), ours.take()
	require.NotEqual(t, first, second)
	nodes := []string{"leader_ack", name(first), name(second), name(others.take()), "ballot0000000001"}
	require.Empty(t, ours.unowned(gemLayout, "/e", nodes))
	ours.free(first)
	require.Equal(t, []string{"/e/" + name(first)}, ours.unowned(gemLayout, "/e", nodes))
	require.Empty(t, ours.unowned(gemLayout, "/e", nodes), "it is being removed")
	require.Empty(t, ours.unowned(gemLayout, "/other", nil))
	require.Len(t, ours.removing, 1)
	require.Empty(t, ours.unowned(gemLayout, "/e", nodes[2:]), "it has gone")
	require.Empty(t, ours.removing)
	require.Len(t, ours.unowned(gemLayout, "/e", nodes), 1, "it is back again")
	require.Len(t, ours.used, 1)
}

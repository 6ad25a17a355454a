package zookeeper

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestElectionsThatAreKnown(t *testing.T) {
	var k elections
	require.True(t, k.missing("/e"))
	require.False(t, k.missing("/e"))
	for owner := range int64(mostMet + 1) {
		k.met("/e/ballot", owner)
		k.met("/e/ballot", owner) // again
	}
	require.False(t, k.hasMet("/e/other", 0), "the oldest is forgotten")
	for owner := int64(1); owner <= mostMet; owner++ {
		require.True(t, k.hasMet("/e/other", owner))
		require.False(t, k.hasMet("/other/ballot", owner))
	}
	k.met("/e/ballot", 1)
	k.met("/e/ballot", 10)
	require.True(t, k.hasMet("/e/other", 1), "it was met again")
	require.False(t, k.hasMet("/e/other", 2), "the oldest is forgotten")
	for i := range mostElections - 1 {
		k.missing(fmt.Sprint("/", i))
	}
	k.met("/e/ballot", 100)
	require.True(t, k.hasMet("/e/other", mostMet), "there is room for it")
	require.True(t, k.missing("/one more"))
	require.False(t, k.hasMet("/e/other", 100), "all are forgotten")
	require.True(t, k.missing("/e"))
}

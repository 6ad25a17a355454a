package zookeeper

import (
	"fmt"
	"testing"
	"time"

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

// A handshake has 250 ms or two of the last round trips, twice as long after each that has timed out, and a third of the
// TTL at most. An answer begins anew.
func TestHandshakeLimit(t *testing.T) {
	d := &driver{config: Config{TTL: 9 * time.Second}, trip: 200 * time.Millisecond}
	require.NoError(t, d.hosts.Init([]string{"a", "b"}))
	limit := func() time.Duration {
		d.hosts.Next()
		return d.handshakeLimit()
	}
	for range 2 {
		for _, want := range []time.Duration{400, 800, 1600, 3000, 3000} {
			require.Equal(t, want*time.Millisecond, limit())
			require.Equal(t, want*time.Millisecond, limit(), "a connection that was refused says nothing")
			d.hosts.timedOut()
		}
		d.hosts.answered(false)
	}
	d.trip = time.Millisecond
	require.Equal(t, leastLimit, limit())
	d.trip = 0
	require.Equal(t, 3*time.Second, limit(), "no handshake has been answered")
}

package testserver

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReservePorts(t *testing.T) {
	p, err := reservePorts(50)
	require.NoError(t, err)
	seen := make(map[int]bool)
	for _, port := range p.numbers {
		require.False(t, seen[port], "port %d twice", port)
		seen[port] = true
		_, err := claimPort(port)
		require.Error(t, err, "nobody else may reserve port %d", port)
	}
	p.release()
	claim, err := claimPort(p.numbers[0])
	require.NoError(t, err)
	require.NoError(t, claim.Close())
}

// Somebody takes a port after it was chosen: the server starts on others.
func TestPortTakenMeanwhile(t *testing.T) {
	for _, c := range []struct {
		name    string
		members int
		index   int
	}{
		{"standalone, client port", 1, 0},
		{"ensemble, client port", 3, 3},
		{"ensemble, port for followers", 3, 7}, // of the last member, which leads as long as all are empty
		{"ensemble, port for elections", 3, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var thief net.Listener
			attempts := 0
			z, err := startZooKeeper(bounded(t), ZooKeeperConfig{Members: c.members}, func(n int) (*ports, error) {
				p, err := reservePorts(n)
				if attempts++; err != nil || attempts > 1 {
					return p, err
				}
				thief, err = net.Listen("tcp", loopback(p.numbers[c.index]))
				return p, err
			})
			require.NoError(t, err)
			defer z.Close()
			defer thief.Close()
			require.Equal(t, 2, attempts)
			require.NotContains(t, z.Addrs(), thief.Addr().String())
			requireServes(t, z)
		})
	}
}

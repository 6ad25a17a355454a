package testserver

import (
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
		require.Error(t, err, "no other process may reserve port %d", port)
	}
	p.release()
	claim, err := claimPort(p.numbers[0])
	require.NoError(t, err)
	require.NoError(t, claim.Close())
}

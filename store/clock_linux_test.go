package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSuspendedStandsStill: on a machine that is not suspended meanwhile, the answer is the same each time, to much
// less than any grace.
func TestSuspendedStandsStill(t *testing.T) {
	first, ok := suspended()
	require.True(t, ok)
	require.GreaterOrEqual(t, first, -time.Second)
	for range 1000 {
		next, ok := suspended()
		require.True(t, ok)
		require.InDelta(t, first, next, float64(time.Second))
	}
}

func TestSuspendedAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { suspended() }))
}

func TestReadClockOfNoSuchClock(t *testing.T) {
	_, ok := readClock(1 << 20)
	require.False(t, ok)
}

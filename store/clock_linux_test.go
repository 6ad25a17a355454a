package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSuspendedStandsStill: on a machine that is not suspended meanwhile, the result is the same each time, to much
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

// TestSuspendedIsWhatTheKernelSays compares with the kernel's clocks. That the clocks differ after a suspension is
// for TestSuspensionInATimeNamespace.
func TestSuspendedIsWhatTheKernelSays(t *testing.T) {
	s, ok := suspended()
	require.True(t, ok)
	mono, ok := readClock(clockMonotonic)
	require.True(t, ok)
	boot, ok := readClock(clockBoottime)
	require.True(t, ok)
	require.InDelta(t, boot-mono, s, float64(time.Second))
	require.Greater(t, boot, 2*time.Second, "the machine was started too short a time ago for this test")
}

func TestSuspendedAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { suspended() }))
}

// readings returns a reader of clocks that returns one reading after another: the monotonic clock, the clock since
// boot, the monotonic clock again. It counts the readings.
func readings(t *testing.T, given ...time.Duration) (read func(uintptr) (time.Duration, bool), count *int) {
	count = new(int)
	return func(clock uintptr) (time.Duration, bool) {
		i := *count
		*count++
		require.Equal(t, []uintptr{1, 7, 1}[i%3], clock)
		if i >= len(given) {
			return 77, false // a clock that can't be read
		}
		return given[i], true
	}, count
}

func TestSuspendedBy(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		given []time.Duration
		want  time.Duration
		count int
	}{
		"never suspended":       {[]time.Duration{100 * s, 100*s + 2, 100*s + 4}, 0, 3},
		"suspended for an hour": {[]time.Duration{100 * s, 3700*s + 2, 100*s + 4}, 3600 * s, 3},
		"as old as it may be":   {[]time.Duration{100 * s, 3700*s + 2, 100*s + ms - 1}, 3600*s + 2 - (ms-1)/2, 3},
		"interrupted once": {[]time.Duration{
			100 * s, 3700 * s, 100*s + ms,
			200 * s, 3800*s + 2, 200*s + 4,
		}, 3600 * s, 6},
		"interrupted always": {[]time.Duration{
			100 * s, 0, 101 * s, 100 * s, 0, 101 * s, 100 * s, 0, 101 * s, 100 * s, 0, 101 * s,
			200 * s, 3801 * s, 202 * s,
		}, 3600 * s, 15},
	} {
		t.Run(name, func(t *testing.T) {
			read, count := readings(t, c.given...)
			got, ok := suspendedBy(read)
			require.True(t, ok)
			require.Equal(t, c.want, got)
			require.Equal(t, c.count, *count)
		})
	}
}

func TestSuspendedByClocksThatCannotBeRead(t *testing.T) {
	for n := range 6 {
		read, count := readings(t, []time.Duration{0, 0, time.Hour, 0, 0}[:min(n, 5)]...)
		got, ok := suspendedBy(read)
		require.False(t, ok)
		require.Zero(t, got)
		require.Equal(t, n+1, *count)
	}
}

func TestReadClockOfNoSuchClock(t *testing.T) {
	_, ok := readClock(1 << 20)
	require.False(t, ok)
}

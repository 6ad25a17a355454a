package suspension

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// shifted returns t with its two readings moved apart, as a set clock or a suspended machine moves them. The API of
// time.Time keeps them together, so this changes its memory, and checks that it found the readings there.
func shifted(t *testing.T, at time.Time, wall, mono time.Duration) time.Time {
	t.Helper()
	moved := at.Add(wall) // both readings
	layout := (*struct {
		wall uint64
		ext  int64 // the monotonic reading, where there is one
		loc  *time.Location
	})(unsafe.Pointer(&moved))
	layout.ext += int64(mono - wall)
	require.Equal(t, mono, moved.Sub(at), "time.Time has another layout than this test knows")
	require.EqualValues(t, wall, moved.UnixNano()-at.UnixNano(), "time.Time has another layout than this test knows")
	return moved
}

func TestSince(t *testing.T) {
	before := slept
	t.Cleanup(func() { slept = before })
	for name, c := range map[string]struct {
		wall, mono time.Duration // how long ago, by each clock
		slept      time.Duration // since the process started
		want       time.Duration
	}{
		"nothing happened":                 {time.Hour, time.Hour, 0, time.Hour},
		"suspended":                        {2 * time.Hour, time.Second, 2 * time.Hour, 2 * time.Hour},
		"suspended before":                 {time.Hour, time.Hour, 2 * time.Hour, time.Hour},
		"suspended, and set back":          {-time.Hour, time.Second, 2 * time.Hour, 2 * time.Hour},
		"set forward":                      {24 * time.Hour, time.Hour, 0, time.Hour},
		"set back":                         {-24 * time.Hour, time.Hour, 0, time.Hour},
		"set, and suspended before: more":  {24 * time.Hour, time.Hour, time.Hour, 2 * time.Hour},
		"the clocks can't be read at once": {time.Hour + 5*time.Millisecond, time.Hour, 2 * time.Hour, time.Hour},
		"the machine's answer has noise":   {24 * time.Hour, time.Hour, -time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			slept = func(time.Time, time.Duration) time.Duration { return c.slept }
			const much = float64(30 * time.Minute) // more than a test takes
			require.InDelta(t, c.want, Since(shifted(t, time.Now(), -c.wall, -c.mono)), much)
		})
	}
}

// TestSinceNothing: the zero time is as long ago as a Duration can say, as for time.Since.
func TestSinceNothing(t *testing.T) {
	require.Equal(t, time.Since(time.Time{}), Since(time.Time{}))
}

// TestSlept reads the machine's clocks: it was not suspended since this process started, or else all of it counts.
func TestSlept(t *testing.T) {
	require.InDelta(t, 0, slept(time.Now(), 0), float64(24*time.Hour))
}

// TestSimulate: what was before the suspension is older, what comes after is not.
func TestSimulate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		time.Sleep(time.Second)
		undo := Simulate(time.Hour)
		require.Equal(t, time.Hour+time.Second, Since(before))
		require.Zero(t, Since(time.Now()))
		undo()
		require.Equal(t, time.Second, Since(before))
	})
}

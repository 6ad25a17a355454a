package store

import (
	"testing"
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

// suspend makes the machine look as if it had been suspended for that long, until the test ends.
func suspend(t *testing.T, total *time.Duration, known bool) (asked *int) {
	t.Helper()
	asked = new(int)
	readSuspended = func() (time.Duration, bool) {
		*asked++
		return *total, known
	}
	t.Cleanup(func() { readSuspended = suspended })
	return asked
}

func TestInstantSince(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for name, c := range map[string]struct {
		before     time.Duration // suspended by the time of the instant
		wall, mono time.Duration // passed on each clock
		after      time.Duration // suspended by the end
		unknown    bool          // whether the machine can't tell at the instant
		unknownNow bool          // ... and at the end
		want       time.Duration
		asks       bool // whether the machine has to be asked
	}{
		"nothing happened":                     {wall: 3 * time.Second, mono: 3 * time.Second, want: 3 * time.Second},
		"no time passed":                       {want: 0},
		"a moment before":                      {wall: -time.Second, mono: -time.Second, want: -time.Second},
		"suspended earlier":                    {before: day, after: day, wall: 1, mono: 1, want: 1},
		"slewed by what two readings may miss": {wall: 2010*time.Millisecond - 1, mono: 2 * time.Second, want: 2 * time.Second},
		"and the other way":                    {wall: 1990*time.Millisecond + 1, mono: 2 * time.Second, want: 2 * time.Second},
		"slewed by more":                       {wall: 2010 * time.Millisecond, mono: 2 * time.Second, want: 2 * time.Second, asks: true},
		"by more, the other way":               {wall: 1990 * time.Millisecond, mono: 2 * time.Second, want: 2 * time.Second, asks: true},
		"wall clock set forward":               {wall: day, mono: 2, want: 2, asks: true},
		"wall clock set back":                  {wall: -day, mono: 2, want: 2, asks: true},
		"wall clock set a little":              {wall: 12 * time.Millisecond, mono: 2, want: 2, asks: true},
		"suspended":                            {wall: hour + 2, mono: 2, after: hour, want: hour + 2, asks: true},
		"suspended once more":                  {before: day, wall: hour + 2, mono: 2, after: day + hour, want: hour + 2, asks: true},
		"suspended, and set forward":           {wall: day, mono: 2, after: hour, want: hour + 2, asks: true},
		"suspended, and set back":              {wall: -day, mono: 2, after: hour, want: hour + 2, asks: true},
		"the machine's answer has some noise":  {before: 5, wall: day, mono: 2, after: 4, want: 2, asks: true},
		"can't tell, gained":                   {unknown: true, wall: hour + 2, mono: 2, after: day, want: hour + 2, asks: true},
		"can't tell, lost":                     {unknown: true, wall: -hour, mono: 2, after: day, want: 2, asks: true},
		"can't tell any more, gained":          {unknownNow: true, wall: hour + 2, mono: 2, want: hour + 2, asks: true},
		"can't tell any more, lost":            {unknownNow: true, wall: -hour, mono: 2, want: 2, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := suspend(t, &c.after, !c.unknownNow)
			at := time.Now()
			i := Instant{at, c.before, !c.unknown}
			require.Equal(t, c.want, i.Since(shifted(t, at, c.wall, c.mono)))
			require.Equal(t, c.asks, *asked > 0, "asked %d times", *asked)
		})
	}
}

func TestNow(t *testing.T) {
	before := time.Now()
	now := Now()
	after := time.Now()
	require.Contains(t, now.Time().String(), " m=", "without a monotonic reading a wall clock that is set moves deadlines")
	require.False(t, now.Time().Before(before))
	require.False(t, now.Time().After(after))
	require.GreaterOrEqual(t, now.Since(time.Now()), time.Duration(0))
	require.Less(t, now.Since(time.Now()), time.Minute)
}

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

// These tests run on the real clocks, because the time of a testing/synctest bubble has no monotonic reading with which
// the wall clock could disagree. Nothing waits: the lease is a day long, and the tests change for how long the machine
// reports that it was suspended.

const (
	aDay   = 24 * time.Hour
	anHour = time.Hour
)

// apart returns an instant whose readings are such that, from now on, the wall clock has gained that much more than
// the monotonic clock since then. Whether this was a suspension is for readSuspended to say.
func apart(t *testing.T, gained time.Duration) Instant {
	t.Helper()
	return Instant{shifted(t, time.Now(), -gained, 0), 0, true}
}

func requireRemaining(t *testing.T, want time.Duration, l *Lease) {
	t.Helper()
	require.InDelta(t, want, l.Remaining(), float64(10*time.Minute)) // much more than a test takes
}

func TestLeaseCountsTheTimeOfASuspension(t *testing.T) {
	var total time.Duration
	suspend(t, &total, true)
	l := NewLease()
	require.True(t, l.Renew(apart(t, 20*anHour), aDay))
	span, ok := l.Span()
	require.True(t, ok)
	requireRemaining(t, aDay, l)

	total = 20 * anHour // and the machine is back
	requireRemaining(t, 4*anHour, l)
	require.True(t, l.Holds(span))
	require.True(t, l.Renew(Instant{time.Now(), total, true}, aDay), "what follows starts from here")
	requireRemaining(t, aDay, l)
	require.True(t, l.Holds(span))
}

// TestLeaseDeadlineAfterASuspension: as much time is left until the deadline as the lease holds, by both clocks.
func TestLeaseDeadlineAfterASuspension(t *testing.T) {
	const soon = float64(10 * time.Minute) // much more than a test takes
	var total time.Duration
	suspend(t, &total, true)
	l := NewLease()
	require.True(t, l.Renew(apart(t, 20*anHour), aDay))
	require.InDelta(t, aDay, time.Until(l.Last().Deadline), soon)

	total = 20 * anHour // and the machine is back
	requireRemaining(t, 4*anHour, l)
	deadline := l.Last().Deadline
	require.InDelta(t, 4*anHour, time.Until(deadline), soon)
	require.InDelta(t, 4*anHour, time.Until(deadline.Round(0)), soon, "by the wall clock")
}

// TestLeaseIsOverInTheFirstCallAfterASuspension: no timer has fired, no event has come.
func TestLeaseIsOverInTheFirstCallAfterASuspension(t *testing.T) {
	for name, wall := range map[string]time.Duration{
		"the wall clock went on":                   25 * anHour,
		"the wall clock was set back meanwhile":    -100 * aDay,
		"the wall clock was set ahead meanwhile":   100 * aDay,
		"the wall clock was set back by as much":   20 * time.Millisecond, // to somewhat more than the tolerance
		"the wall clock was set back by even more": -20 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			var total time.Duration
			suspend(t, &total, true)
			l := NewLease()
			l.Renew(apart(t, wall), aDay)
			span, _ := l.Span()
			require.True(t, l.Holds(span))

			total = 25 * anHour
			require.Zero(t, l.Remaining())
			require.True(t, l.Last().Deadline.IsZero())
			require.False(t, l.Holds(span))
			total = 0
			require.False(t, l.Holds(span), "what has ended stays over")
			_, ok := l.Span()
			require.False(t, ok)
		})
	}
}

// TestLeaseRenewalSentBeforeASuspension: the answer was in a buffer while the machine was suspended.
func TestLeaseRenewalSentBeforeASuspension(t *testing.T) {
	total := 25 * anHour
	suspend(t, &total, true)
	l := NewLease()
	require.False(t, l.Renew(apart(t, 25*anHour), aDay))
	_, ok := l.Span()
	require.False(t, ok)
}

// TestLeaseConfirmedAfterASuspension: the deadline passed during the suspension, so a later confirmation is for a new
// term.
func TestLeaseConfirmedAfterASuspension(t *testing.T) {
	var total time.Duration
	suspend(t, &total, true)
	l := NewLease()
	l.Renew(apart(t, 25*anHour), aDay)
	old, _ := l.Span()
	total = 25 * anHour
	require.True(t, l.Renew(Instant{time.Now(), total, true}, aDay))
	require.False(t, l.Holds(old))
	span, ok := l.Span()
	require.True(t, ok)
	require.True(t, l.Holds(span))
}

// TestLeaseOlderRenewalAfterASuspension: a renewal that was sent before the last one does not hold either, once the
// last one's deadline has passed, even if no call has noticed yet.
func TestLeaseOlderRenewalAfterASuspension(t *testing.T) {
	var total time.Duration
	suspend(t, &total, true)
	l := NewLease()
	older := apart(t, 25*anHour)
	older.t = older.t.Add(-time.Second)
	require.True(t, l.Renew(apart(t, 25*anHour), aDay))
	total = 25 * anHour
	require.False(t, l.Renew(older, aDay))
}

func TestLeaseOutlivesAWallClockThatIsSet(t *testing.T) {
	for _, gained := range []time.Duration{-1000 * aDay, -anHour, -time.Second, 20 * time.Millisecond, anHour, 1000 * aDay} {
		t.Run(gained.String(), func(t *testing.T) {
			var total time.Duration
			asked := suspend(t, &total, true)
			l := NewLease()
			require.True(t, l.Renew(apart(t, gained), aDay))
			span, ok := l.Span()
			require.True(t, ok, "a clock that was set must end no leadership")
			require.True(t, l.Holds(span))
			requireRemaining(t, aDay, l)
			require.NotZero(t, *asked, "the test has not shown anything")

			sent := apart(t, gained)
			sent.t = sent.t.Add(-aDay)
			require.False(t, NewLease().Renew(sent, aDay), "nor does it lengthen a lease")
		})
	}
}

// TestLeaseWhereTheMachineCannotTell: everything that the wall clock gained counts as suspension, which is safe.
func TestLeaseWhereTheMachineCannotTell(t *testing.T) {
	var total time.Duration
	suspend(t, &total, false)
	l := NewLease()
	require.True(t, l.Renew(apart(t, 20*anHour), aDay))
	requireRemaining(t, 4*anHour, l)
	l = NewLease()
	require.True(t, l.Renew(apart(t, -20*anHour), aDay))
	requireRemaining(t, aDay, l) // a wall clock that went back takes no time away
	require.False(t, NewLease().Renew(apart(t, 25*anHour), aDay))
}

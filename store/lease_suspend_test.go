package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// suspendable returns a lease, and for how long the machine has been suspended.
func suspendable(t *testing.T) (*Lease, *time.Duration) {
	t.Helper()
	total := new(time.Duration)
	suspend(t, total, true)
	return NewLease(), total
}

func requireRemaining(t *testing.T, want time.Duration, l *Lease) {
	t.Helper()
	require.InDelta(t, want, l.Remaining(), float64(10*time.Minute)) // much more than a test takes
}

func TestLeaseCountsTheTimeOfASuspension(t *testing.T) {
	l, total := suspendable(t)
	require.True(t, l.Renew(apart(t, 20*anHour), aDay))
	span, ok := l.Span()
	require.True(t, ok)
	requireRemaining(t, aDay, l)

	*total = 20 * anHour // and the machine is back
	requireRemaining(t, 4*anHour, l)
	require.True(t, l.Holds(span))
	require.True(t, l.Renew(Instant{time.Now(), *total, true}, aDay), "what follows starts from here")
	requireRemaining(t, aDay, l)
	require.True(t, l.Holds(span))
}

// TestLeaseDeadlineAfterASuspension: as much time is left until the deadline as the lease holds, by both clocks.
func TestLeaseDeadlineAfterASuspension(t *testing.T) {
	const soon = float64(10 * time.Minute) // much more than a test takes
	l, total := suspendable(t)
	require.True(t, l.Renew(apart(t, 20*anHour), aDay))
	require.InDelta(t, aDay, time.Until(l.Last().Deadline), soon)

	*total = 20 * anHour // and the machine is back
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
			l, total := suspendable(t)
			l.Renew(apart(t, wall), aDay)
			span, _ := l.Span()
			require.True(t, l.Holds(span))

			*total = 25 * anHour
			require.Zero(t, l.Remaining())
			require.True(t, l.Last().Deadline.IsZero())
			require.False(t, l.Holds(span))
			*total = 0
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
	l, total := suspendable(t)
	l.Renew(apart(t, 25*anHour), aDay)
	old, _ := l.Span()
	*total = 25 * anHour
	require.True(t, l.Renew(Instant{time.Now(), *total, true}, aDay))
	require.False(t, l.Holds(old))
	span, ok := l.Span()
	require.True(t, ok)
	require.True(t, l.Holds(span))
}

// TestLeaseOlderRenewalAfterASuspension: a renewal that was sent before the last one does not hold either, once the
// last one's deadline has passed, even if no call has noticed yet.
func TestLeaseOlderRenewalAfterASuspension(t *testing.T) {
	l, total := suspendable(t)
	older := apart(t, 25*anHour)
	older.t = older.t.Add(-time.Second)
	require.True(t, l.Renew(apart(t, 25*anHour), aDay))
	*total = 25 * anHour
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

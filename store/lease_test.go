package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	valid  = 6 * time.Second
	moment = time.Nanosecond
)

// virtual runs a test with a lease in virtual time.
func virtual(t *testing.T, test func(t *testing.T, l *Lease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, NewLease()) })
}

func TestLeaseDoesNotHoldBeforeTheFirstRenewal(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		span, ok := l.Span()
		require.False(t, ok)
		require.False(t, l.Holds(span))
		require.Zero(t, l.Remaining())
		require.True(t, l.Last().Deadline.IsZero())
		require.True(t, l.Last().Sent.IsZero())
		require.True(t, l.Last().Confirmed.IsZero())
	})
}

// TestLeaseEndsAtItsDeadline: it counts from when the request was sent, not from when it was confirmed, to the
// nanosecond and without an event.
func TestLeaseEndsAtItsDeadline(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		sent := Now()
		time.Sleep(2 * time.Second)
		require.True(t, l.Renew(sent, valid))
		span, ok := l.Span()
		require.True(t, ok)
		require.Equal(t, 4*time.Second, l.Remaining())
		last := l.Last()
		require.Equal(t, sent.Time(), last.Sent)
		require.Equal(t, sent.Time().Add(2*time.Second), last.Confirmed)
		require.Equal(t, sent.Time().Add(valid), last.Deadline)

		time.Sleep(4*time.Second - moment)
		require.True(t, l.Holds(span))
		again, ok := l.Span()
		require.True(t, ok)
		require.Equal(t, span, again)
		require.Equal(t, moment, l.Remaining())
		require.Equal(t, last, l.Last())
		require.True(t, l.Renew(Instant{}, 0), "it still holds")
		require.True(t, NewLease().Renew(Now(), moment))
		require.True(t, NewLease().Renew(sent, valid), "confirmed at the last moment")
		require.False(t, NewLease().Renew(sent, valid-moment), "confirmed at its deadline")

		time.Sleep(moment)
		require.Zero(t, l.Remaining())
		require.True(t, l.Last().Deadline.IsZero())
		require.False(t, l.Holds(span))
		_, ok = l.Span()
		require.False(t, ok)
	})
}

func TestLeaseRenewedInTimeGoesOn(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		require.True(t, l.Renew(Now(), valid))
		span, _ := l.Span()
		for range 100 {
			sent := Now()
			time.Sleep(valid - moment)
			require.True(t, l.Holds(span))
			require.True(t, l.Renew(sent, 2*valid), "confirmed at the last moment")
			require.True(t, l.Renew(Now(), 2*valid))
			again, ok := l.Span()
			require.True(t, ok)
			require.Equal(t, span, again, "an unbroken run of renewals is one span")
		}
	})
}

// TestLeaseLateConfirmationRevivesNothing: it begins a new span.
func TestLeaseLateConfirmationRevivesNothing(t *testing.T) {
	for name, look := range map[string]func(*Lease, Span){
		"not read meanwhile":        func(*Lease, Span) {},
		"Holds saw the lease end":   func(l *Lease, s Span) { l.Holds(s) },
		"the last renewal was read": func(l *Lease, _ Span) { l.Last(); l.Remaining() },
		"the span was read":         func(l *Lease, _ Span) { l.Span() },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, l *Lease) {
				l.Renew(Now(), valid)
				old, _ := l.Span()
				time.Sleep(valid - time.Second)
				sent := Now() // in time, but its answer is late
				time.Sleep(time.Second)
				look(l, old)

				require.True(t, l.Renew(sent, valid), "the session stands, so a new term can begin")
				require.False(t, l.Holds(old), "a term whose deadline has passed stays over")
				span, ok := l.Span()
				require.True(t, ok)
				require.NotEqual(t, old, span)
				require.Equal(t, valid-time.Second, l.Remaining())
				require.True(t, l.Holds(span))
				require.False(t, l.Holds(old))
			})
		})
	}
}

func TestLeaseRenewalAfterItsOwnDeadlineChangesNothing(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		sent := Now()
		time.Sleep(valid)
		require.False(t, l.Renew(sent, valid))
		_, ok := l.Span()
		require.False(t, ok)

		require.True(t, l.Renew(Now(), valid))
		span, _ := l.Span()
		before := l.Last()
		require.True(t, l.Renew(sent, valid), "it still holds, by the other renewal")
		require.True(t, l.Holds(span))
		require.Equal(t, before, l.Last())
		require.Equal(t, valid, l.Remaining())
	})
}

func TestLeaseConfirmationsOutOfOrder(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		l.Renew(Now(), valid)
		span, _ := l.Span()
		time.Sleep(time.Second)
		first := Now()
		time.Sleep(time.Second)
		second := Now()
		time.Sleep(time.Second)
		require.True(t, l.Renew(second, valid))
		before := l.Last()
		require.True(t, l.Renew(first, valid), "the lease holds")
		require.Equal(t, before, l.Last(), "the earlier request says nothing that the later one has not said")
		require.True(t, l.Renew(second, valid), "nor does the same answer twice")
		require.Equal(t, before, l.Last())
		require.False(t, isClosed(before.Changed), "nothing has changed")
		require.True(t, l.Renew(second, valid+moment))
		<-before.Changed
		require.Equal(t, second.Time().Add(valid+moment), l.Last().Deadline)
		time.Sleep(time.Until(second.Time().Add(valid)))
		require.True(t, l.Holds(span))
		time.Sleep(moment)
		require.False(t, l.Holds(span))
	})
}

func TestLeaseEnd(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		l.Renew(Now(), valid)
		span, _ := l.Span()
		changed := l.Last().Changed
		l.End()
		<-changed
		for range 2 {
			require.False(t, l.Holds(span))
			require.Zero(t, l.Remaining())
			require.True(t, l.Last().Deadline.IsZero())
			require.False(t, l.Renew(Now(), valid), "no renewal counts any more")
			next, ok := l.Span()
			require.False(t, ok)
			require.False(t, l.Holds(next))
			l.End()
		}
	})
}

func TestLeaseEndBeforeTheFirstRenewal(t *testing.T) {
	l := NewLease()
	l.End()
	require.False(t, l.Renew(Now(), valid))
	_, ok := l.Span()
	require.False(t, ok)
}

func TestLeaseChanged(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		first := l.Last().Changed
		require.False(t, isClosed(first))
		l.Renew(Now(), valid)
		<-first

		second := l.Last().Changed
		require.False(t, isClosed(second))
		time.Sleep(time.Second)
		l.Renew(Now(), valid)
		<-second

		third := l.Last().Changed
		span, _ := l.Span()
		time.Sleep(valid - 1)
		require.False(t, isClosed(third))
		time.Sleep(time.Nanosecond)
		<-third // without a call
		require.False(t, l.Holds(span))

		fourth := l.Last().Changed
		require.False(t, isClosed(fourth))
		require.False(t, l.Holds(span))
		require.False(t, isClosed(fourth))
		l.Renew(Now(), valid)
		<-fourth
	})
}

// TestLeaseThatLapsedIsNotUnderstoodAsTheNext: a span that never began, or has not begun yet, does not hold.
func TestLeaseThatLapsedIsNotUnderstoodAsTheNext(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		var spans []Span
		for range 10 {
			require.True(t, l.Renew(Now(), valid))
			span, ok := l.Span()
			require.True(t, ok)
			require.NotContains(t, spans, span)
			for _, old := range spans {
				require.False(t, l.Holds(old))
			}
			require.False(t, l.Holds(span+1))
			spans = append(spans, span)
			time.Sleep(valid)
		}
	})
}

// isClosed waits until everything is at rest, and reports whether the channel is closed.
func isClosed(ch <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestLeaseLapsed: the channel is closed at the deadline without a call of any method, and not before.
func TestLeaseLapsed(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		began := time.Now()
		require.True(t, l.Renew(Now(), valid))
		span, _ := l.Span()
		lapsed := l.Lapsed(span)
		for i := range 10 {
			time.Sleep(valid / 2)
			require.False(t, isClosed(lapsed), "renewal %d", i)
			require.True(t, l.Renew(Now(), valid))
		}
		time.Sleep(valid - 1)
		require.False(t, isClosed(lapsed))
		<-lapsed
		require.Equal(t, 6*valid, time.Since(began))
		require.False(t, l.Holds(span))

		require.True(t, l.Renew(Now(), valid))
		require.True(t, isClosed(l.Lapsed(span)), "that span stays over")
		span, _ = l.Span()
		lapsed = l.Lapsed(span)
		require.False(t, isClosed(lapsed))
		l.End()
		require.True(t, isClosed(lapsed))
		require.True(t, isClosed(l.Lapsed(span)))
	})
}

// TestLeaseLapsedAfterAShorterRenewal: the channel is closed in time for a span that ends earlier than the one before
// would have.
func TestLeaseLapsedAfterAShorterRenewal(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		require.True(t, l.Renew(Now(), time.Hour))
		l.lapse(l.state.Load(), false)
		require.True(t, l.Renew(Now(), time.Second))
		span, _ := l.Span()
		began := time.Now()
		<-l.Lapsed(span)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// TestLeaseOverdue: the channel is closed when less than a third of the lease is left, once until the next renewal.
func TestLeaseOverdue(t *testing.T) {
	virtual(t, func(t *testing.T, l *Lease) {
		require.True(t, l.Renew(Now(), 9*time.Second))
		overdue := l.Last().Overdue
		for range 3 {
			time.Sleep(5 * time.Second)
			require.False(t, isClosed(overdue))
			require.True(t, l.Renew(Now(), 9*time.Second))
		}
		time.Sleep(6 * time.Second)
		require.False(t, isClosed(overdue))
		changed := l.Last().Changed
		time.Sleep(time.Nanosecond)
		require.True(t, isClosed(overdue), "renewals pass the channel on")
		require.Equal(t, 3*time.Second-1, l.Remaining())
		require.False(t, isClosed(changed), "nothing was renewed")
		require.Equal(t, overdue, l.Last().Overdue)

		require.True(t, l.Renew(Now(), 9*time.Second))
		require.True(t, isClosed(changed))
		overdue = l.Last().Overdue
		time.Sleep(6 * time.Second)
		require.False(t, isClosed(overdue), "another one since the renewal")
		time.Sleep(time.Nanosecond)
		require.True(t, isClosed(overdue))
	})
}

// TestLeaseOverdueOverASlowLink: renewals that take two round trips are not overdue; with an eighth of the lease left
// they are.
func TestLeaseOverdueOverASlowLink(t *testing.T) {
	for name, c := range map[string]struct{ trip, left time.Duration }{
		"fast":      {0, 8 * time.Second},
		"slow":      {9 * time.Second, 4 * time.Second}, // two thirds of the 6 s that two round trips leave
		"very slow": {11 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, l *Lease) {
				sent := Now()
				time.Sleep(c.trip)
				require.True(t, l.Renew(sent, 24*time.Second))
				<-l.Last().Overdue
				require.Equal(t, c.left-1, l.Remaining())
			})
		})
	}
}

// TestLeaseTellsAllAtOnce: in whatever order renewals, ends and the timer race, each channel is closed once, and all
// are closed in the end.
func TestLeaseTellsAllAtOnce(t *testing.T) {
	for range 400 {
		l := NewLease()
		l.Renew(Now(), 100*time.Microsecond)
		span, _ := l.Span()
		last, lapsed := l.Last(), l.Lapsed(span)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { l.Renew(Now(), 100*time.Microsecond) })
		}
		all.Go(func() { <-lapsed })
		all.Go(func() { <-last.Changed })
		all.Go(func() { l.Holds(span) })
		all.Go(l.ring)
		all.Go(l.End)
		all.Wait()
		require.False(t, l.Holds(span))
	}
}

// Candidate.IsLeader is little more than Holds, and is called on hot paths.

func TestLeaseHoldsAllocatesNothing(t *testing.T) {
	l := NewLease()
	require.True(t, l.Renew(Now(), time.Hour))
	span, _ := l.Span()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if !l.Holds(span) {
			t.Error("it holds for an hour")
		}
	}))
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Span() }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Remaining() }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Holds(span + 1) }), "nor for a span that is over")
}

// TestLeaseHoldsAllocatesNothingAfterTheClockWasSet: the system is asked at each call then.
func TestLeaseHoldsAllocatesNothingAfterTheClockWasSet(t *testing.T) {
	l := NewLease()
	sent := Now()
	sent.t = shifted(t, sent.t, time.Minute, 0)
	require.True(t, l.Renew(sent, time.Hour))
	span, _ := l.Span()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if !l.Holds(span) {
			t.Error("it holds for an hour")
		}
	}))
}

func BenchmarkLeaseHolds(b *testing.B) {
	l := NewLease()
	l.Renew(Now(), time.Hour)
	span, _ := l.Span()
	b.ReportAllocs()
	for b.Loop() {
		if !l.Holds(span) {
			b.Fatal("it holds for an hour")
		}
	}
}

func BenchmarkLeaseHoldsParallel(b *testing.B) {
	l := NewLease()
	l.Renew(Now(), time.Hour)
	span, _ := l.Span()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !l.Holds(span) {
				b.Error("it holds for an hour")
			}
		}
	})
}

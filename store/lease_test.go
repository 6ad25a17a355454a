package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	valid  = 6 * time.Second
	moment = time.Nanosecond
)

func TestLeaseDoesNotHoldBeforeTheFirstRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
		require.Equal(t, moment, l.Remaining())

		time.Sleep(moment)
		require.Zero(t, l.Remaining())
		require.True(t, l.Last().Deadline.IsZero())
		require.False(t, l.Holds(span))
		_, ok = l.Span()
		require.False(t, ok)
	})
}

func TestLeaseRenewedInTimeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
			synctest.Test(t, func(t *testing.T) {
				l := NewLease()
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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
		select {
		case <-before.Changed:
			require.Fail(t, "nothing has changed")
		default:
		}
		time.Sleep(time.Until(second.Time().Add(valid - moment)))
		require.True(t, l.Holds(span))
		time.Sleep(moment)
		require.False(t, l.Holds(span))
	})
}

func TestLeaseEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
		open := func(ch <-chan struct{}) {
			t.Helper()
			select {
			case <-ch:
				require.Fail(t, "nothing has changed")
			default:
			}
		}
		first := l.Last().Changed
		open(first)
		l.Renew(Now(), valid)
		<-first

		second := l.Last().Changed
		open(second)
		time.Sleep(time.Second)
		l.Renew(Now(), valid)
		<-second

		third := l.Last().Changed
		span, _ := l.Span()
		time.Sleep(valid - 1)
		synctest.Wait()
		open(third)
		time.Sleep(time.Nanosecond)
		<-third // without a call
		require.False(t, l.Holds(span))

		fourth := l.Last().Changed
		open(fourth)
		require.False(t, l.Holds(span))
		open(fourth)
		l.Renew(Now(), valid)
		<-fourth
	})
}

// TestLeaseThatLapsedIsNotUnderstoodAsTheNext: a span that never began, or has not begun yet, does not hold.
func TestLeaseThatLapsedIsNotUnderstoodAsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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

package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
	synctest.Test(t, func(t *testing.T) {
		l := NewLease()
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
			synctest.Test(t, func(t *testing.T) {
				l := NewLease()
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
	for range 2000 {
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

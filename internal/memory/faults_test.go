package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestStallWatchesHoldsNotificationsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		first, second := stand(t, a, "a"), stand(t, b, "b")
		next := wait(t.Context(), second)
		follow := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &store.Leader{}) })
		require.False(t, next.returned())
		b.Faults().Stall()
		require.NoError(t, first.Wait(t.Context()))
		_, err := first.Acknowledge(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, first.Withdraw(t.Context()))
		_, err = a.Cast(t.Context(), "x", "c")
		require.NoError(t, err)
		require.False(t, next.returned())
		require.False(t, follow.returned())
		require.Equal(t, []string{"b", "c"}, standing(t, b), "requests are answered")
		require.True(t, holds(second), "and so are renewals")
		b.Faults().Heal()
		require.True(t, next.returned())
		require.NoError(t, next.err)
	})
}

// TestExpireEndsTheSessionAtOnce: no promise covers this. The lease goes on until the store learns of it.
func TestExpireEndsTheSessionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		a.Faults().Cut() // no news
		a.Faults().Expire()
		require.True(t, next.returned())
		require.Zero(t, leader(t, b))
		require.True(t, holds(ballot), "the store can't know")
		a.Faults().Expire() // again, with no session left
		a.Faults().Heal()
		require.True(t, isLost(ballot))
	})
}

// TestRequestsCountsWhatIsSent, renewals left out.
func TestRequestsCountsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		time.Sleep(10*ttl + renewal/2) // apart from the resyncs
		require.Zero(t, a.Faults().Requests())
		count := func(want int, do func()) {
			t.Helper()
			before := a.Faults().Requests()
			do()
			synctest.Wait()
			require.Equal(t, want, a.Faults().Requests()-before)
		}
		var ballot store.Ballot
		count(2, func() { ballot = stand(t, a, "a") }) // and a watch
		count(0, func() { require.NoError(t, ballot.Wait(t.Context())) })
		count(1, func() { _, _ = ballot.Acknowledge(t.Context(), "a") })
		count(1, func() { leader(t, a) })
		count(1, func() { standing(t, a) })
		count(0, func() { a.Worked(); ballot.Lease().Remaining() })
		count(8, func() { time.Sleep(ttl) }) // one resync and one look at a head for each quarter of the TTL
		count(1, func() { require.NoError(t, ballot.Withdraw(t.Context())) })
		require.Zero(t, b.Faults().Requests())
	})
}

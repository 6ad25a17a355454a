package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestConfirmedIsWhenTheLastConfirmedRequestWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		ballot := stand(t, a, "a")
		synctest.Wait()
		opened := a.Confirmed()
		require.Equal(t, time.Now(), opened)
		for range 5 {
			renewed := ballot.Lease().Last().Changed
			<-renewed
			require.Zero(t, time.Since(ballot.Lease().Last().Sent))
			require.False(t, isLost(ballot))
			require.Equal(t, time.Now(), a.Confirmed())
		}
		a.Faults().Delay(300 * time.Millisecond)
		time.Sleep(ttl)
		before := a.Confirmed()
		for synctest.Wait(); a.Confirmed().Equal(before); synctest.Wait() {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, time.Now().Add(-600*time.Millisecond), a.Confirmed(), "the sending counts, not the answer")
	})
}

// TestConfirmedStandsStillInAnOutage, and does not block.
func TestConfirmedStandsStillInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		stand(t, a, "a")
		time.Sleep(10*ttl + time.Millisecond)
		a.Faults().Cut()
		before := a.Confirmed()
		require.Less(t, time.Since(before), renewal)
		time.Sleep(10 * ttl)
		require.Equal(t, before, a.Confirmed())
		a.Faults().Heal()
		time.Sleep(renewal)
		synctest.Wait()
		require.LessOrEqual(t, time.Since(a.Confirmed()), renewal)
	})
}

// TestConfirmedStandsStillWhileRepliesAreLost: the requests arrive, but nothing proves it.
func TestConfirmedStandsStillWhileRepliesAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		stand(t, a, "a")
		synctest.Wait() // the store confirms on its own, beside Campaign
		a.Faults().LoseReplies()
		before := a.Confirmed()
		require.Equal(t, time.Now(), before)
		time.Sleep(ttl / 2)
		require.Equal(t, before, a.Confirmed())
	})
}

// requireFresh fails if Confirmed claims that a pending call was right after the change that it has not told of yet.
func requireFresh(t *testing.T, pending *result[store.Leader], confirmed, changed time.Time) {
	t.Helper()
	if !pending.returned() {
		require.False(t, confirmed.After(changed),
			"a pending Leader call that has not returned was right at that time, %v after the change that it missed",
			confirmed.Sub(changed))
	}
}

// TestConfirmedHoldsForAPendingLeaderCall on a slow line: the answer of a renewal takes as long as the notification.
func TestConfirmedHoldsForAPendingLeaderCall(t *testing.T) {
	for _, delay := range []time.Duration{0, 100 * time.Millisecond, renewal / 2, renewal} {
		for eighth := range 8 {
			inBubble(t, func(t *testing.T) {
				_, a, b := pair(t)
				time.Sleep(renewal + time.Duration(eighth)*renewal/8)
				b.Faults().Delay(delay)
				pending := start(func() (store.Leader, error) { return b.Leader(t.Context(), "x", &store.Leader{}) })
				time.Sleep(2 * ttl)
				require.False(t, pending.returned())
				lead(t, a, "a")
				changed := time.Now()
				for !pending.returned() {
					requireFresh(t, pending, b.Confirmed(), changed)
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
}

// TestConfirmedHoldsWhileWatchesAreStalled: renewals are answered, notifications are not, so the answer to a renewal
// proves nothing about what a pending call should have been told.
func TestConfirmedHoldsWhileWatchesAreStalled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		time.Sleep(renewal / 2) // apart from the renewals
		pending := start(func() (store.Leader, error) { return b.Leader(t.Context(), "x", &store.Leader{}) })
		require.False(t, pending.returned())
		b.Faults().StallWatches()
		lead(t, a, "a")
		changed := time.Now()
		for !pending.returned() {
			requireFresh(t, pending, b.Confirmed(), changed)
			time.Sleep(renewal / 4)
		}
	})
}

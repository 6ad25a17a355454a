package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func ballots(t *testing.T, st *memory.Store) *result[[]store.Standing] {
	t.Helper()
	return start(func() ([]store.Standing, error) { return st.Ballots(t.Context(), "x") })
}

// TestCutIsInBothDirectionsUntilHeal, on one line only.
func TestCutIsInBothDirectionsUntilHeal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := stand(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		b.Faults().Cut()
		list := ballots(t, b)
		require.NoError(t, first.Withdraw(t.Context()))
		time.Sleep(ttl / 2)
		require.False(t, list.returned(), "requests")
		require.False(t, next.returned(), "notifications")
		require.Equal(t, []string{"b"}, standing(t, a), "the other line")
		b.Faults().Heal()
		require.True(t, list.returned())
		require.Len(t, list.value, 1, "what was under way waited, and was then carried out")
		require.True(t, next.returned())
	})
}

func TestLoseRepliesLetsRequestsThrough(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := stand(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		b.Faults().LoseReplies()
		cast := start(func() (store.Ballot, error) { return b.Cast(t.Context(), "x", "c") })
		time.Sleep(ttl - time.Nanosecond)
		require.False(t, cast.returned())
		require.Equal(t, []string{"a", "b", "c"}, standing(t, a))
		require.NoError(t, first.Withdraw(t.Context()))
		require.False(t, next.returned(), "no notifications")
		b.Faults().Heal()
		<-cast.done
		require.True(t, next.returned())
	})
}

// TestLoseRepliesOfWhatIsUnderWay: the switches take effect at once, also for what is under way.
func TestLoseRepliesOfWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		stand(t, a, "a")
		a.Faults().Delay(2 * time.Second)
		list := ballots(t, a)
		time.Sleep(3 * time.Second) // the answer is on its way
		require.False(t, list.returned())
		a.Faults().LoseReplies()
		time.Sleep(ttl)
		require.False(t, list.returned())
		a.Faults().Heal()
		a.Faults().Delay(0)
		<-list.done
		require.NoError(t, list.err)
	})
}

func TestStallWatchesHoldsNotificationsBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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

// TestDelayOfRequestAndAnswer, each of them once.
func TestDelayOfRequestAndAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const delay = 300 * time.Millisecond
		_, a, b := pair(t)
		stand(t, a, "a")
		time.Sleep(renewal / 2) // apart from the renewals
		a.Faults().Delay(delay)
		began := time.Now()
		cast := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "b") })
		time.Sleep(delay - time.Nanosecond)
		require.False(t, cast.returned())
		require.Equal(t, []string{"a"}, standing(t, b), "the request")
		time.Sleep(time.Nanosecond)
		require.False(t, cast.returned())
		require.Equal(t, []string{"a", "b"}, standing(t, b))
		<-cast.done
		require.Equal(t, 2*delay, cast.at.Sub(began), "and the answer")
	})
}

// TestDelayOfANotification: the successor leads that much later, without a request.
func TestDelayOfANotification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const delay = 300 * time.Millisecond
		_, a, b := pair(t)
		first := stand(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		b.Faults().Delay(delay)
		require.NoError(t, first.Withdraw(t.Context()))
		gone := time.Now()
		<-next.done
		require.Equal(t, delay, next.at.Sub(gone))
	})
}

// TestDelayTakenAwayFreesWhatIsUnderWay: the switches take effect at once, also for what is under way.
func TestDelayTakenAwayFreesWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		stand(t, a, "a")
		a.Faults().Delay(time.Hour)
		list := ballots(t, a)
		require.False(t, list.returned())
		a.Faults().Delay(0)
		require.True(t, list.returned())
	})
}

// TestCutStopsWhatIsUnderWay on a slow line: "stops everything on the line, in both directions, until Heal".
func TestCutStopsWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "a")
		a.Faults().Delay(time.Second)
		cast := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "b") })
		require.False(t, cast.returned())
		a.Faults().Cut()
		time.Sleep(3 * time.Second)
		require.Equal(t, []string{"a"}, standing(t, b), "a request got through a line that was cut")
		require.False(t, cast.returned())
		a.Faults().Heal()
		<-cast.done
		require.NoError(t, cast.err)
		require.Equal(t, []string{"a", "b"}, standing(t, b))
	})
}

// TestHealLeavesTheDelay: Heal undoes all other faults.
func TestHealLeavesTheDelay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		stand(t, a, "a")
		f := a.Faults()
		f.Delay(100 * time.Millisecond)
		f.Cut()
		f.LoseReplies()
		f.Stall()
		f.Heal()
		f.Heal()
		began := time.Now()
		require.Equal(t, []string{"a"}, standing(t, a))
		require.Equal(t, 200*time.Millisecond, time.Since(began))
	})
}

// TestExpireEndsTheSessionAtOnce: no promise covers this. The lease goes on until the store learns of it.
func TestExpireEndsTheSessionAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
	inBubble(t, func(t *testing.T) {
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

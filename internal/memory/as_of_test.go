package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// asOf returns the time for which the store knows the leader of election "x", which it must be following: it sends
// nothing.
func asOf(t *testing.T, st store.Store) time.Time {
	t.Helper()
	synctest.Wait()
	known, err := st.Observe(t.Context(), "x", &store.Known{})
	require.NoError(t, err)
	return known.AsOf
}

// TestAsOfIsWhenTheLastConfirmedRequestWasSent.
func TestAsOfIsWhenTheLastConfirmedRequestWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		stand(t, a, "a")
		leader(t, a)
		require.Equal(t, time.Now(), asOf(t, a))
		for range 5 {
			time.Sleep(renewal)
			require.Equal(t, time.Now(), asOf(t, a))
		}
		a.Faults().Delay(300 * time.Millisecond)
		time.Sleep(ttl)
		before := asOf(t, a)
		for asOf(t, a).Equal(before) {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, time.Now().Add(-600*time.Millisecond), asOf(t, a), "the sending counts, not the answer")
	})
}

// TestAsOfStandsStillInAnOutage: neither lost requests nor lost replies confirm anything.
func TestAsOfStandsStillInAnOutage(t *testing.T) {
	for name, fault := range map[string]func(*memory.Faults){
		"cut":          (*memory.Faults).Cut,
		"replies lost": (*memory.Faults).LoseReplies,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, a, _ := pair(t)
				stand(t, a, "a")
				last := store.Known{Leader: leader(t, a)}
				go func() { // follows
					for err := error(nil); err == nil; {
						last, err = a.Observe(t.Context(), "x", &last)
					}
				}()
				time.Sleep(10*ttl + time.Millisecond)
				fault(a.Faults())
				before := asOf(t, a)
				require.Less(t, time.Since(before), renewal)
				time.Sleep(10 * ttl)
				require.Equal(t, before, asOf(t, a))
				a.Faults().Heal()
				time.Sleep(renewal)
				require.LessOrEqual(t, time.Since(asOf(t, a)), renewal)
			})
		})
	}
}

// requireRight fails if a store says that there is no leader as of a time at which there was one.
func requireRight(t *testing.T, st store.Store, changed time.Time) (told bool) {
	t.Helper()
	known, err := st.Observe(t.Context(), "x", &store.Known{})
	require.NoError(t, err)
	if known.Leader == (store.Leader{}) {
		require.False(t, known.AsOf.After(changed), "%v after the change that it missed", known.AsOf.Sub(changed))
	}
	return known.Leader != store.Leader{}
}

// TestAsOfIsNotAheadOfTheNews on a slow line: the answer of a confirmation takes as long as the notification.
func TestAsOfIsNotAheadOfTheNews(t *testing.T) {
	for _, delay := range []time.Duration{0, 100 * time.Millisecond, renewal / 2, renewal} {
		for eighth := range 8 {
			inBubble(t, func(t *testing.T) {
				_, a, b := pair(t)
				time.Sleep(renewal + time.Duration(eighth)*renewal/8)
				b.Faults().Delay(delay)
				require.Zero(t, leader(t, b))
				time.Sleep(2 * ttl / 3)
				lead(t, a, "a")
				changed := time.Now()
				for !requireRight(t, b, changed) {
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
}

// TestAsOfIsNotAheadOfTheNewsWhileWatchesAreStalled: confirmations are answered, notifications are not. So an answer
// does not prove that a follower has been told everything.
func TestAsOfIsNotAheadOfTheNewsWhileWatchesAreStalled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		time.Sleep(renewal / 2) // apart from the confirmations
		require.Zero(t, leader(t, b))
		b.Faults().Stall()
		lead(t, a, "a")
		changed := time.Now()
		for !requireRight(t, b, changed) {
			time.Sleep(renewal / 4)
		}
	})
}

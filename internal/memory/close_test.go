package memory_test

import (
	"maps"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestCloseEndsTheSessionAndItsBallots at once, for others too.
func TestCloseEndsTheSessionAndItsBallots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot, waiting := lead(t, a, "a"), stand(t, a, "waiting")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		span, _ := ballot.Lease().Span()

		began := time.Now()
		require.NoError(t, a.Close())
		require.False(t, ballot.Lease().Holds(span), "before another candidate leads")
		require.Equal(t, []string{"b"}, standing(t, b))
		require.Zero(t, leader(t, b))
		require.True(t, isLost(ballot))
		require.True(t, isLost(waiting))
		require.False(t, holds(ballot))
		require.True(t, next.returned())
		require.NoError(t, next.err)
		require.Zero(t, time.Since(began))
	})
}

// TestCloseWithEverythingRunning: pending and later calls return ErrClosed at once, whatever the state of the line. The
// error of a ballot also matches ErrLost.
func TestCloseWithEverythingRunning(t *testing.T) {
	lines := maps.Clone(outages)
	lines["healthy"] = func(*memory.Faults) {}
	lines["stalled"] = (*memory.Faults).Stall
	for outage, fault := range lines {
		for name, call := range calls {
			t.Run(name+", "+outage, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					_, a, _ := pair(t)
					first, second := stand(t, a, "first"), stand(t, a, "second")
					require.NoError(t, first.Wait(t.Context()))
					fault(a.Faults())
					pending := startErr(func() error { return call(t.Context(), a, first, second) })
					ended := pending.returned()
					began := time.Now()
					require.NoError(t, a.Close())
					require.True(t, pending.returned())
					require.Zero(t, time.Since(began))
					if !ended && (name != "Withdraw" || pending.err != nil) { // Close itself might have withdrawn the ballot by then
						require.ErrorIs(t, pending.err, store.ErrClosed, "pending")
					}
					require.ErrorIs(t, first.Err(), store.ErrLost)
					require.ErrorIs(t, second.Err(), store.ErrLost)
					if name != "Withdraw" || !ended { // a ballot that is known to be gone can be withdrawn again
						require.ErrorIs(t, call(t.Context(), a, first, second), store.ErrClosed, "later")
					}
				})
			})
		}
	}
}

// TestCloseWhereTheServiceCannotBeReached: the session ends by itself after its TTL.
func TestCloseWhereTheServiceCannotBeReached(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		time.Sleep(ttl + time.Millisecond)
		last := ballot.Lease().Last().Sent
		a.Faults().Cut()
		began := time.Now()
		require.NoError(t, a.Close())
		require.Zero(t, time.Since(began))
		require.False(t, holds(ballot))
		require.Equal(t, []string{"a", "b"}, standing(t, b))
		<-next.done
		require.NoError(t, next.err)
		require.Equal(t, ttl, next.at.Sub(last))
	})
}

// TestWithdrawAfterACloseThatCouldNotReachTheService: the ballot still stands, so that nil, "known to be gone", would
// be wrong.
func TestWithdrawAfterACloseThatCouldNotReachTheService(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		a.Faults().Cut()
		require.NoError(t, a.Close())
		require.Equal(t, []string{"a"}, standing(t, b))
		require.ErrorIs(t, ballot.Withdraw(t.Context()), store.ErrClosed)
	})
}

func TestCloseTwiceAndAtTheSameTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		lead(t, a, "a")
		var closing []*result[struct{}]
		for range 10 {
			closing = append(closing, startErr(a.Close))
		}
		for _, c := range closing {
			require.True(t, c.returned())
			require.NoError(t, c.err)
		}
		require.NoError(t, a.Close())
		require.Empty(t, standing(t, b))
	})
}

// TestCloseLeavesOthersAlone: the other session, its ballots and the service go on.
func TestCloseLeavesOthersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, b := pair(t)
		mine := lead(t, b, "b")
		stand(t, a, "a")
		require.NoError(t, a.Close())
		time.Sleep(10 * ttl)
		require.True(t, holds(mine))
		require.False(t, isLost(mine))
		require.Equal(t, "b", leader(t, open(t, service)).Value)
	})
}

// TestFaultsAfterClose are no reason to panic.
func TestFaultsAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		ballot := lead(t, a, "a")
		require.NoError(t, a.Close())
		f := a.Faults()
		f.Cut()
		f.LoseReplies()
		f.Stall()
		f.Delay(time.Second)
		f.Heal()
		f.Expire()
		time.Sleep(10 * ttl)
		require.True(t, a.Worked())
		require.False(t, holds(ballot))
		require.ErrorIs(t, ballot.Err(), store.ErrLost)
	})
}

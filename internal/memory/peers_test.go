package memory_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// peer opens a store whose session the peers expire.
func peer(t *testing.T, service *memory.Service, clock float64) *memory.Store {
	t.Helper()
	st, err := memory.Open(service, &memory.Config{Peers: true, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// TestPeersExpireACrashedHolder: the one behind it does, a TTL after it saw the last renewal, by its own clock.
func TestPeersExpireACrashedHolder(t *testing.T) {
	for _, clock := range []float64{0.9, 1, 1.1} {
		inBubble(t, func(t *testing.T) {
			service := memory.NewService()
			a, b := peer(t, service, 1), peer(t, service, clock)
			old := lead(t, a, "a")
			next := stand(t, b, "b")
			waiting := wait(t.Context(), next)
			time.Sleep(3 * ttl)
			require.True(t, holds(old))
			require.False(t, waiting.returned(), "it is renewed")
			a.Faults().Cut()
			cut := time.Now()
			<-waiting.done
			require.NoError(t, waiting.err)
			require.False(t, holds(old))
			local := time.Duration(float64(ttl) / clock)
			require.GreaterOrEqual(t, waiting.at.Sub(cut), local-renewal)
			require.LessOrEqual(t, waiting.at.Sub(cut), local+local/4)
			require.Equal(t, []string{"b"}, standing(t, b))
			a.Faults().Heal()
			require.True(t, isLost(old))
		})
	}
}

// TestNothingExpiresWithoutAPeer: the service itself expires nothing.
func TestNothingExpiresWithoutAPeer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service := memory.NewService()
		a, b := peer(t, service, 1), open(t, service)
		old := lead(t, a, "a")
		a.Faults().Cut()
		time.Sleep(10 * ttl)
		require.False(t, holds(old))
		require.Equal(t, []string{"a"}, standing(t, b))
		next := wait(t.Context(), stand(t, b, "b"))
		time.Sleep(10 * ttl)
		require.False(t, next.returned(), "this one relies on the service")
	})
}

// TestSeveralCrashedHolders are expired one after the other.
func TestSeveralCrashedHolders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service := memory.NewService()
		stores := []*memory.Store{peer(t, service, 1), peer(t, service, 1), peer(t, service, 1)}
		for _, st := range stores {
			stand(t, st, "crashed")
			st.Faults().Cut()
		}
		last := peer(t, service, 1)
		next := wait(t.Context(), stand(t, last, "b"))
		time.Sleep(3*ttl - 1)
		require.False(t, next.returned())
		time.Sleep(ttl)
		require.True(t, next.returned())
	})
}

// TestServiceClock: the service measures the TTL by its clock.
func TestServiceClock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service := memory.NewService()
		service.SetClock(0.5)
		a, b := open(t, service), open(t, service)
		stand(t, a, "a")
		a.Faults().Cut()
		time.Sleep(2*ttl - 1)
		require.Len(t, standing(t, b), 1)
		time.Sleep(2 * time.Nanosecond)
		require.Empty(t, standing(t, b))
	})
}

// TestProcessClock: a lease is a third shorter than the TTL, by the clock of the process.
func TestProcessClock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow, fast := peer(t, memory.NewService(), 0.5), peer(t, memory.NewService(), 2)
		for st, rate := range map[*memory.Store]float64{slow: 0.5, fast: 2} {
			require.Equal(t, time.Duration(float64(ttl)/rate), st.TTL())
			b := stand(t, st, "v")
			st.Faults().Cut()
			require.Equal(t, time.Duration(float64(ttl-grace)/rate), b.Lease().Remaining())
		}
	})
	_, err := memory.Open(memory.NewService(), &memory.Config{Clock: -1})
	require.ErrorIs(t, err, store.ErrInvalid)
}

package memory_test

import (
	"testing"
	"testing/synctest"
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

// TestNothingExpiresWithoutAPeer: the service itself expires nothing.
func TestNothingExpiresWithoutAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// TestServiceClock: the service measures the TTL by its clock.
func TestServiceClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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

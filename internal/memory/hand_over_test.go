package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHandOverTakesOneRoundTrip on a slow link, if the watches are ordered: the request to withdraw goes to the service, and the
// news to the next in line. What is read anew meanwhile does not hold that up, whenever it began.
func TestHandOverTakesOneRoundTrip(t *testing.T) {
	const trip = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		service := NewService()
		var stores []*Store
		for range 2 {
			st, err := Open(service, &Config{TTL: 3 * time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			st.Faults().Delay(trip / 2)
			stores = append(stores, st)
		}
		leader, err := stores[0].Cast(ctx, "x", "0")
		require.NoError(t, err)
		require.NoError(t, leader.Wait(ctx))
		for i := range 60 {
			next, err := stores[(i+1)%2].Cast(ctx, "x", "next")
			require.NoError(t, err)
			time.Sleep(3*trip + time.Duration(i)*37*time.Millisecond) // both entries are watched, and resyncs are in each phase
			began := time.Now()
			go func() { _ = leader.Withdraw(ctx) }()
			require.NoError(t, next.Wait(ctx))
			require.Equal(t, trip, time.Since(began), "hand-over %d", i)
			leader = next
		}
	})
}

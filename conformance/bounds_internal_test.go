package conformance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/stretchr/testify/require"
)

// An upper bound is what is promised, and the time for which the process itself stood still.
func TestUpperBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{TB: t, ctx: t.Context(), meter: stall.Start()}
		began := e.begin()
		err := e.patiently(time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorContains(t, err, "not within 1s: this process stood still for 0s of")
		require.Equal(t, 2*time.Second, e.left(began, 3*time.Second))
		e.meter.Stop() // from now on it measures what it measures in a process that stands still
		time.Sleep(time.Minute)
		require.InDelta(t, 2*time.Second, e.left(began, 3*time.Second), float64(50*time.Millisecond))
	})
}

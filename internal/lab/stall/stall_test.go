package stall

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start()
		time.Sleep(time.Second)
		require.Zero(t, m.Stalled())
		m.Stop()

		// A process that stands still runs no goroutine: here none but the test's own.
		m.last = time.Now()
		time.Sleep(interval + 3*time.Second)
		require.Equal(t, 3*time.Second, m.Stalled(), "a stall that lasts")
		m.tick(time.Now())
		require.Equal(t, 3*time.Second, m.Stalled(), "a stall that is over")
		time.Sleep(2 * interval)
		m.tick(time.Now())
		require.Equal(t, 3*time.Second, m.Stalled(), "a delay as short as this is none")
		require.Equal(t, "this process stood still for 3s of 4.03s (at most 3s at a time)", m.String())
	})
}

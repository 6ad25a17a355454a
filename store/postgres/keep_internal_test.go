package postgres

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// The rule of Keep: a renewal is sent each sixth of the TTL, whether or not the last one was answered. Other requests that
// hang keep none from being sent.
func TestKeepWaitsForNoAnswer(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		ctx, stop := context.WithCancel(t.Context())
		s, _, err := d.Open(ctx)
		require.NoError(t, err)
		f.set(func() { f.hangs["renew"], f.hangs["enter"] = true, true })
		ended := make(chan error)
		for i := range 6 {
			go func() {
				_, err := s.Enter(ctx, "x", engine.Nonce{Name: "n", Slot: i}, "own")
				ended <- err
			}()
		}
		go func() { ended <- s.Keep(ctx, func(engine.Proof) { t.Error("a renewal counts that was not answered") }) }()
		time.Sleep(12*time.Second - 1)
		synctest.Wait()
		require.Len(t, f.called("enter"), requests)
		at := f.called("renew")
		require.Len(t, at, 3)
		for i, at := range at {
			require.InDelta(t, float64(4*time.Second)*float64(i), float64(at), float64(2*time.Second), "renewal %d", i)
		}
		stop()
		for range 7 {
			require.Error(t, <-ended)
		}
	})
}

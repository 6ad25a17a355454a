package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end ends a lifecycle as a store does.
func end(l *adapter.Lifecycle) {
	l.Close()
	l.Stop()
	l.Wait()
}

func TestLifecycleEndsCallsBeforeTasks(t *testing.T) {
	l := adapter.NewLifecycle("store", false, "a")
	call, done, err := l.Call(t.Context())
	require.NoError(t, err)
	defer done()
	stopped := make(chan error, 1)
	require.True(t, l.Go(func() {
		<-l.Background.Done()
		stopped <- call.Err()
	}))
	l.Close()
	<-call.Done()
	require.ErrorIs(t, context.Cause(call), store.ErrClosed)
	require.Empty(t, stopped, "the store's own work goes on")
	_, _, err = l.Call(t.Context())
	require.ErrorIs(t, err, store.ErrClosed)
	l.Stop()
	l.Wait()
	require.Error(t, <-stopped)
	require.False(t, l.Go(func() { t.Error("a task after the end") }))
}

func TestCallEndsWithItsContext(t *testing.T) {
	l := adapter.NewLifecycle("store", false, "a")
	defer end(l)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	call, done, err := l.Call(ctx)
	require.NoError(t, err)
	defer done()
	cancel(why)
	<-call.Done()
	require.ErrorIs(t, context.Cause(call), why)
	_, _, err = l.Call(ctx)
	require.ErrorIs(t, err, why)
}

func TestFailSaysItOnce(t *testing.T) {
	l := adapter.NewLifecycle("store", false, "a")
	defer end(l)
	require.NoError(t, l.Fail("try", "e", nil))
	err := l.Fail("try", "e", store.ErrDenied)
	require.EqualError(t, err, `try in election "e" on store://a: permission denied`)
	require.Equal(t, err, l.Fail("wrap", "e", err))
}

// TestEndedSaysItOnce: an attempt that was cut short and the one before it often fail for the same reason.
func TestEndedSaysItOnce(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	refused := fmt.Errorf("%w: connection refused", store.ErrUnavailable)
	cut := fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.DeadlineExceeded)
	unknown := fmt.Errorf("%w: connection refused", store.ErrUnknownOutcome)
	waiting := fmt.Errorf("%w: %w while it connects", store.ErrUnknownOutcome, context.DeadlineExceeded)
	last := fmt.Errorf("%w: context deadline exceeded while it connects", store.ErrUnavailable) // of the request alone
	for _, c := range []struct {
		err, last error
		text      string
	}{
		{nil, nil, "context deadline exceeded"},
		{nil, refused, "context deadline exceeded: service unavailable: connection refused"},
		{cut, nil, "outcome unknown: context deadline exceeded"},
		{cut, cut, "outcome unknown: context deadline exceeded"},
		{cut, refused, "outcome unknown: context deadline exceeded: service unavailable: connection refused"},
		{waiting, last, "outcome unknown: context deadline exceeded while it connects"},
		{unknown, refused, "context deadline exceeded: outcome unknown: connection refused"},
	} {
		err := adapter.Ended(ctx, c.err, c.last)
		require.EqualError(t, err, c.text)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if c.err != nil {
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
		}
	}
}

func TestRetriesDoubleTheirPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r adapter.Retries
		pause := func() int64 {
			began := time.Now()
			r.Pause(t.Context())
			return time.Since(began).Milliseconds()
		}
		require.Equal(t, []int64{50, 100, 200, 400, 400}, []int64{pause(), pause(), pause(), pause(), pause()})
		r.Reset()
		require.EqualValues(t, 50, pause())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		r.Pause(ended)
		require.Zero(t, time.Since(began))
	})
}

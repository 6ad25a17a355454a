package suspension_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	first, second := make(chan struct{}, 9), make(chan struct{}, 9)
	stopFirst, err := suspension.Watch(func() { first <- struct{}{} })
	require.NoError(t, err)
	stopSecond, err := suspension.Watch(func() { second <- struct{}{} })
	require.NoError(t, err)
	for range 3 { // each jump is told
		storetest.Jump(t)
		<-first
		<-second
	}
	stopFirst()
	storetest.Jump(t)
	<-second
	stopSecond()
	storetest.Jump(t)
	require.Empty(t, first)
	require.Empty(t, second)

	again := make(chan struct{}, 9)
	stop, err := suspension.Watch(func() { again <- struct{}{} })
	require.NoError(t, err)
	storetest.Jump(t)
	<-again
	stop()
}

// TestStopWaits: stop returns after resumed.
func TestStopWaits(t *testing.T) {
	defer goleak.VerifyNone(t)
	called, release := make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	stop, err := suspension.Watch(func() {
		close(called)
		<-release
		returned.Store(true)
	})
	require.NoError(t, err)
	storetest.Jump(t)
	<-called
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	stop()
	require.True(t, returned.Load())
}

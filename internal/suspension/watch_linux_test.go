package suspension_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// jump makes the wall clock jump by a nanosecond. The kernel tells that as it tells that the machine has resumed from a
// suspension.
func jump(t *testing.T) {
	t.Helper()
	const setOffset, nano = 0x0100, 0x2000 // ADJ_SETOFFSET and ADJ_NANO, from linux/timex.h
	_, err := syscall.Adjtimex(&syscall.Timex{Modes: setOffset | nano, Time: syscall.Timeval{Usec: 1}})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("to set the clock takes CAP_SYS_TIME")
	}
	require.NoError(t, err)
}

// TestWatch: the kernel tells each jump.
func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	first, second := make(chan struct{}, 9), make(chan struct{}, 9)
	stopFirst, err := suspension.Watch(func() { first <- struct{}{} })
	require.NoError(t, err)
	stopSecond, err := suspension.Watch(func() { second <- struct{}{} })
	require.NoError(t, err)
	for range 3 { // each jump is told
		jump(t)
		<-first
		<-second
	}
	stopFirst()
	jump(t)
	<-second
	stopSecond()
	jump(t)
	require.Empty(t, first)
	require.Empty(t, second)

	again := make(chan struct{}, 9)
	stop, err := suspension.Watch(func() { again <- struct{}{} })
	require.NoError(t, err)
	jump(t)
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
	go suspension.Resume()
	<-called
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	stop()
	require.True(t, returned.Load())
}

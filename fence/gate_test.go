package fence

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	var g Gate
	wrong := errors.New("wrong")
	do := func() error { return wrong }
	require.ErrorIs(t, g.Do(0, do), ErrSuperseded)
	require.ErrorIs(t, g.Do(1, do), ErrSuperseded, "not raised")
	require.Error(t, g.Raise(0))
	require.NoError(t, g.Raise(1))
	require.NoError(t, g.Raise(1))
	require.ErrorIs(t, g.Do(1, do), wrong)
	require.NoError(t, g.Raise(3))
	require.ErrorIs(t, g.Raise(2), ErrSuperseded)
	require.ErrorIs(t, g.Do(1, do), ErrSuperseded)
	require.ErrorIs(t, g.Do(4, do), ErrSuperseded)
	require.ErrorIs(t, g.Do(3, do), wrong)
}

// A raise waits for the calls under way, which run at the same time.
func TestGateWaits(t *testing.T) {
	var g Gate
	require.NoError(t, g.Raise(1))
	inside, leave := make(chan bool), make(chan bool)
	var left atomic.Int32
	for range 2 {
		go func() { _ = g.Do(1, func() error { inside <- true; <-leave; left.Add(1); return nil }) }()
	}
	<-inside
	<-inside
	raised := make(chan error)
	go func() { raised <- g.Raise(2) }()
	for g.mu.TryRLock() { // until the raise waits
		g.mu.RUnlock()
		runtime.Gosched()
	}
	close(leave)
	require.NoError(t, <-raised)
	require.EqualValues(t, 2, left.Load())
}

// Leaders that do not know of each other write through the gate: none writes after a raise above its token.
func TestGateAtTheSameTime(t *testing.T) {
	var g Gate
	var highest atomic.Uint64
	var writers sync.WaitGroup
	for token := uint64(1); token <= 50; token++ {
		require.NoError(t, g.Raise(token))
		highest.Store(token)
		for range 4 {
			writers.Go(func() {
				for range 20 {
					err := g.Do(token, func() error {
						runtime.Gosched()
						if highest.Load() > token {
							return errors.New("late")
						}
						return nil
					})
					if err != nil && !errors.Is(err, ErrSuperseded) {
						t.Error(err)
					}
				}
			})
		}
	}
	writers.Wait()
}

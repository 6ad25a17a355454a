package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/stretchr/testify/require"
)

// A command that fails is run again after a back-off, unless it has failed too often.
func TestAgain(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again = retries{enabled: true, limit: 5}
		over := w.run()
		for n, at := range []time.Duration{0, 1, 3, 7, 15} {
			w.at(at * time.Second)
			require.Empty(w, over)
			w.program(n + 1).exit(guard.Result{Code: 7})
			if n < 4 {
				require.Empty(w, w.ballots(), "it stands again later")
			}
		}
		require.Equal(w, outcome{kind: exited, code: 7}, <-over)
	})
}

// A command that has succeeded is not run again.
func TestAgainUntilDone(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again = retries{enabled: true}
		over := w.run()
		for n := range 100 {
			w.program(n + 1).exit(guard.Result{Code: 1})
			time.Sleep(time.Minute)
		}
		w.program(101).exit(guard.Result{})
		require.Equal(w, outcome{kind: exited}, <-over)
	})
}

// The loss of leadership does not count as a failure of the command.
func TestAgainAfterALoss(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again = retries{enabled: true, limit: 1}
		over := w.run()
		for n := range 10 {
			w.program(n + 1).exit(guard.Result{Cause: guard.Deadline})
			time.Sleep(time.Minute)
		}
		require.Empty(w, over)
		w.program(11).exit(guard.Result{Code: 3})
		require.Equal(w, outcome{kind: exited, code: 3}, <-over)
	})
}

// A runner that operators ask to resign again and again stands again soon: it is to be there for the next switch-over.
func TestNoBackOffAfterRequests(t *testing.T) {
	r := retries{enabled: true}
	for range 10 {
		delay, again := r.next(outcome{lost, exitLost, fmt.Errorf("the command was stopped: %w", leadership.ErrRequested)}, false, time.Unix(0, 0), time.Second)
		require.True(t, again)
		require.Equal(t, firstDelay, delay)
	}
}

func TestBackOff(t *testing.T) {
	now := time.Unix(0, 0)
	r := retries{enabled: true}
	next := func(took time.Duration) time.Duration {
		delay, ok := r.next(outcome{kind: exited, code: 1}, false, now, took)
		require.True(t, ok)
		return delay
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		require.Equal(t, want*time.Second, next(59*time.Second))
	}
	require.Equal(t, time.Second, next(time.Minute), "a turn that lasts sets it back")
	_, ok := r.next(outcome{kind: exited, code: 1}, true, now, 0)
	require.False(t, ok, "a signal has asked for the end")
}

// Failures count for a minute.
func TestAgainLimit(t *testing.T) {
	r := retries{enabled: true, limit: 3}
	for i, test := range []struct {
		at   time.Duration
		goes bool
	}{{0, true}, {30, true}, {60, true}, {90, true}, {119, false}} {
		_, ok := r.next(outcome{kind: failed}, false, time.Unix(0, 0).Add(test.at*time.Second), 0)
		require.Equal(t, test.goes, ok, i)
	}
}

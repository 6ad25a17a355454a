// Package suspension measures the age of a time.Time as a lease does: with the time that the machine was suspended, which
// Go's monotonic clock leaves out on Linux.
package suspension

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// tolerance is by how much the wall clock and the monotonic clock may disagree if the machine was not suspended, as in
// store.Instant.
const tolerance = 10 * time.Millisecond

// start is when the process started.
var start = store.Now()

// Since returns the time that has passed since t, suspensions included. It is never less than a lease counts from t. It
// might be more if the wall clock was set since t, and the machine was suspended before t: a time.Time does not say for how
// long the machine had been suspended by then, so that all suspensions since the process started count.
func Since(t time.Time) time.Duration {
	now := time.Now()
	mono := now.Sub(t)
	if s := simulated.Load(); s != nil && t.Before(s.at) {
		return mono + s.slept
	}
	drift := time.Duration(now.UnixNano()-t.UnixNano()) - mono
	if mono > math.MaxInt64/2 || -tolerance < drift && drift < tolerance { // the zero time has no nanoseconds
		return mono
	}
	return mono + max(0, slept(now, drift))
}

// slept returns how long the machine was suspended since the process started. Elsewhere than on Linux that is unknown, and
// every gain of the wall clock counts.
var slept = func(now time.Time, drift time.Duration) time.Duration {
	if runtime.GOOS != "linux" {
		return drift
	}
	return start.Since(now) - now.Sub(start.Time())
}

var simulated atomic.Pointer[simulation]

type simulation struct {
	at    time.Time
	slept time.Duration
}

// Simulate makes Since count as if the machine had been suspended for that long just now, until undo is called. It is for
// tests.
func Simulate(slept time.Duration) (undo func()) {
	simulated.Store(&simulation{time.Now(), slept})
	return func() { simulated.Store(nil) }
}

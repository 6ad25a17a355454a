package store

import "time"

// Instant is a moment on this machine's clocks. It measures the time since then, including the time that the machine
// was suspended, which Go's monotonic clock leaves out on Linux. Never compare the instants of two machines.
type Instant struct {
	t         time.Time     // wall and monotonic reading
	suspended time.Duration // how long the machine had been suspended by then
	known     bool          // whether the machine can tell
}

// Now reads the clocks. A store calls it before it sends a renewal of its session.
func Now() Instant {
	s, known := suspended()
	return Instant{time.Now(), s, known}
}

// Time returns the instant as a time.Time with a monotonic reading.
func (i Instant) Time() time.Time { return i.t }

// clockTolerance is by how much the wall clock and the monotonic clock may disagree before the time of suspension is
// read: well above the time between two readings, well below any grace.
const clockTolerance = 10 * time.Millisecond

// Since returns the time that passed from i to now, suspensions included. If the two clocks agree it costs no more than
// their reading.
func (i Instant) Since(now time.Time) time.Duration {
	mono := now.Sub(i.t)
	drift := time.Duration(now.UnixNano()-i.t.UnixNano()) - mono
	if -clockTolerance < drift && drift < clockTolerance {
		return mono
	}
	return mono + i.slept(drift)
}

// slept returns how much of a disagreement of the clocks is time that the machine was suspended. The rest comes from
// setting the wall clock.
func (i Instant) slept(drift time.Duration) time.Duration {
	if s, ok := readSuspended(); ok && i.known {
		return max(0, s-i.suspended)
	}
	return max(0, drift)
}

// readSuspended is a variable because tests can't suspend the machine.
var readSuspended = suspended

package store

import (
	"testing"
	"time"
)

// Apart returns the instant with its readings moved apart: the wall clock has gained that much more than the monotonic clock
// since then.
func Apart(t *testing.T, i Instant, gained time.Duration) Instant {
	t.Helper()
	i.t = shifted(t, i.t, -gained, 0)
	return i
}

// Suspend makes the machine look as if it had been suspended for that much longer, until the test ends.
func Suspend(t *testing.T, longer func() time.Duration) {
	readSuspended = func() (time.Duration, bool) {
		d, ok := suspended()
		return d + longer(), ok
	}
	t.Cleanup(func() { readSuspended = suspended })
}

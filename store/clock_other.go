//go:build !linux

package store

import "time"

// suspended is unknown here: every gain of the wall clock on the monotonic clock counts as suspension. That is safe,
// and ends a leader's term if the wall clock is set forward by more than its lease.
func suspended() (time.Duration, bool) { return 0, false }

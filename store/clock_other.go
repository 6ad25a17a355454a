//go:build !linux

package store

import "time"

// suspended is unknown here: whatever the wall clock gained on the monotonic clock counts as suspension, which is
// safe, and costs a leader its term where the wall clock is set forward by more than its lease.
func suspended() (time.Duration, bool) { return 0, false }

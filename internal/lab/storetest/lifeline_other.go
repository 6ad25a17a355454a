//go:build !linux

package storetest

import (
	"testing"
	"time"
)

// ServeLifeline skips the test.
func ServeLifeline(t testing.TB) string {
	t.Helper()
	t.Skip("there are lifelines on Linux alone")
	return ""
}

// Lifeline skips the test.
func Lifeline(t *testing.T, _, _ string) []time.Duration {
	t.Helper()
	t.Skip("there are lifelines on Linux alone")
	return nil
}

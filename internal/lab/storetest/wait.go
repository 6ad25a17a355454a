// Package storetest is what the tests of the stores have in common: waiting for what ought to happen, ballots, candidates
// that contend, a leader in another process, and the server that the tests of a package share.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Watchdog ends a wait for something that ought to take milliseconds, or a TTL. It bounds no store: where a time matters,
// the test measures it.
const Watchdog = 2 * time.Minute

// Soon returns a context that ends when the wait for something has failed.
func Soon(t testing.TB) context.Context { return Within(t, Watchdog) }

// Within returns a context for a call that is meant to end unfinished.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits until the condition holds.
func Eventually(t testing.TB, condition func() bool, what string, args ...any) {
	t.Helper()
	began := time.Now()
	for end := time.After(Watchdog); !condition(); {
		select {
		case <-time.After(min(max(2*time.Millisecond, time.Since(began)/20), 50*time.Millisecond)): // a condition might ask a server
		case <-end:
			require.FailNow(t, "it did not happen: "+fmt.Sprintf(what, args...))
		}
	}
}

// Receive takes the next value of a channel.
func Receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Watchdog):
		require.FailNow(t, "it did not come: "+fmt.Sprintf(what, args...))
		panic("unreachable")
	}
}

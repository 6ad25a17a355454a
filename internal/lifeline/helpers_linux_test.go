package lifeline

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// isTest reports whether a path is that of this test binary.
func isTest(path string) bool {
	own, err := os.Readlink("/proc/self/exe")
	return err == nil && own == path
}

// watchdog ends a wait that has failed. Package storetest can't be imported: it imports this package.
const watchdog = 2 * time.Minute

// eventually waits until the condition holds.
func eventually(t testing.TB, condition func() bool, what string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(watchdog); !condition(); {
		select {
		case <-tick.C:
		case <-end:
			require.FailNow(t, "it did not happen: "+fmt.Sprintf(what, args...))
		}
	}
}

// receive takes the next value of a channel.
func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(watchdog):
		require.FailNow(t, "it did not come: "+fmt.Sprintf(what, args...))
		panic("unreachable")
	}
}

package file

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShownAgain: a leader that could not be shown is shown later, although nothing changes.
func TestShownAgain(t *testing.T) {
	var fails atomic.Int32
	fails.Store(2)
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
		if op == "fsync" && strings.Contains(path, "/_b/") && fails.Add(-1) >= 0 {
			return failed(op, path, syscall.EIO)
		}
		return call()
	}})
	lead(t, st, "one")
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(c.Directory + "/e/e/_leader")
		return err == nil && string(text) == "one"
	}, 10*time.Second, time.Millisecond)
	require.Negative(t, fails.Load())
}

package file

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// TestShownAgain: a leader that could not be shown is shown later, although nothing changes.
func TestShownAgain(t *testing.T) {
	waits(t)
	var fails atomic.Int32
	fails.Store(2)
	c := configWith(t.TempDir()+"/store", 8*time.Second)
	st := openWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
		if op == "fsync" && strings.Contains(path, "/_b/") && fails.Add(-1) >= 0 {
			return failed(op, path, syscall.EIO)
		}
		return call()
	}})
	lead(t, st, "one")
	storetest.Eventually(t, func() bool {
		text, err := os.ReadFile(c.Directory + "/e/e/_leader")
		return err == nil && string(text) == "one"
	}, "the link shows the leader")
	require.Negative(t, fails.Load())
}

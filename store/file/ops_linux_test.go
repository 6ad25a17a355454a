package file

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCloseOnExec: a child process keeps no file of the store open, since that would keep its lock.
func TestCloseOnExec(t *testing.T) {
	dir := t.TempDir() + "/store"
	lead(t, openWith(t, configIn(dir), kernel{}), "value")
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := 0
	for _, fd := range list {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil || !strings.HasPrefix(target, dir) && !strings.Contains(target, "inotify") {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		if missing(err) { // it was open for a moment
			continue
		}
		require.NoError(t, err)
		var flags int64
		for line := range strings.Lines(string(info)) {
			if octal, ok := strings.CutPrefix(line, "flags:"); ok {
				for _, digit := range strings.TrimSpace(octal) {
					flags = flags<<3 | int64(digit-'0')
				}
			}
		}
		require.NotZero(t, flags&syscall.O_CLOEXEC, target)
		found++
	}
	require.GreaterOrEqual(t, found, 2, "the session's file and inotify")
}

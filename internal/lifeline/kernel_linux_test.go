package lifeline

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Another event than POLLIN says nothing of a death.
func TestOnlyPollInCounts(t *testing.T) {
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reading.Close())
	require.NoError(t, control(writing, func(fd int) error { // POLLERR
		require.False(t, exited(fd))
		return nil
	}))
	require.NoError(t, writing.Close())
	require.False(t, exited(1<<20), "POLLNVAL")
}

// What is no pidfd is refused.
func TestOnlyAPidfdPasses(t *testing.T) {
	pidfd, err := openPidfd()
	require.NoError(t, err)
	defer pidfd.Close()
	require.NoError(t, control(pidfd, checkPidfd))
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer reading.Close()
	defer writing.Close()
	require.ErrorContains(t, control(reading, checkPidfd), "no pidfd")
}

// Files of two file systems may have one inode number. The roots of /proc and /sys have.
func TestIdentity(t *testing.T) {
	proc, err := os.Open("/proc")
	require.NoError(t, err)
	defer proc.Close()
	sys, err := os.Open("/sys")
	require.NoError(t, err)
	defer sys.Close()
	one, err := identify(proc)
	require.NoError(t, err)
	other, err := identify(sys)
	require.NoError(t, err)
	require.Equal(t, one.inode, other.inode)
	require.NotEqual(t, one, other)
}

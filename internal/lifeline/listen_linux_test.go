package lifeline

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who may write to the directory can put a link in place of the socket at any time. What it points to keeps its mode.
func TestListenChangesNoOtherFile(t *testing.T) {
	dir := shortDir(t)
	path, victim := dir+"/socket", dir+"/victim"
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	for range 200 {
		require.NoError(t, os.Symlink(victim, dir+"/link"))
		swapped := make(chan struct{})
		go func() {
			defer close(swapped)
			for {
				if _, err := os.Lstat(path); err == nil {
					_ = os.Rename(dir+"/link", path)
					return
				}
			}
		}()
		listener, err := Listen(path, true)
		<-swapped
		if err == nil {
			_ = listener.Close()
		}
		_ = os.Remove(path)
		_ = os.Remove(path + ".lock") // the lock itself lasts as long as the process
		info, err := os.Stat(victim)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

// A socket whose listener is busy is not one that has been left behind.
func TestListenReplacesNoBusySocket(t *testing.T) {
	path := shortDir(t) + "/socket"
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	for { // fill the queue
		conn, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	_, err = Listen(path, false)
	require.ErrorContains(t, err, "a program that is no lifeline might listen")
	require.FileExists(t, path)
}

package lifeline

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A path belongs to one lifeline, and nothing but a socket without a listener is replaced.
func TestListen(t *testing.T) {
	dir := shortDir(t)
	path := dir + "/socket"
	first := startAs(t, "lifeline", nil, path)
	awaitSocket(t, path)
	second := startAs(t, "lifeline", nil, path)
	require.Contains(t, second.line(t), "another lifeline has locked")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	first.kill()
	_, _ = first.Process.Wait()
	third := startAs(t, "lifeline", nil, path, "12345")
	eventually(t, func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().Perm() == 0o666
	}, "the socket of the one that was killed is replaced; all users may use it, if some are allowed")
	third.kill()

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	_, err = Listen(file, false)
	require.ErrorContains(t, err, "is no socket")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))

	taken, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/taken", Net: "unix"})
	require.NoError(t, err)
	defer taken.Close()
	_, err = Listen(dir+"/taken", false)
	require.ErrorContains(t, err, "a program that is no lifeline listens")
}

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

package file

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// foreignRole opens a store where /proc is that of another PID namespace.
var foreignRole = role("foreign", func(dirs [2]string) error {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") // not for other processes
	if err == nil {
		err = syscall.Mount(dirs[0], "/proc", "", syscall.MS_BIND, "")
	}
	if err != nil {
		return err
	}
	st, err := Open(Config{Directory: dirs[1]})
	if err != nil {
		return err
	}
	return st.Close()
})

// TestProcOfOthers: a /proc that does not show this process is refused, before anything is made.
func TestProcOfOthers(t *testing.T) {
	require.NoError(t, showsUs("/proc"))
	require.ErrorContains(t, showsUs(t.TempDir()), "no proc file system")
	require.ErrorContains(t, showsUs(t.TempDir()+"/none"), "no proc file system")

	needRoot(t)
	proc := t.TempDir()
	mount := exec.CommandContext(soon(t), "mount", "-t", "proc", "proc", proc)
	mount.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: the /proc of another PID namespace can't be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(proc, syscall.MNT_DETACH)) })
	require.ErrorContains(t, showsUs(proc), "another PID namespace")

	dir := t.TempDir()
	p := start(t, foreignRole, [2]string{proc, dir + "/store"}, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	})
	select {
	case <-p.done:
	case <-soon(t).Done():
		require.Fail(t, "the process does not end")
	}
	require.False(t, p.ProcessState.Success())
	require.Contains(t, p.errors.String(), "another PID namespace")
	require.Len(t, files(t, dir), 1)
}

// TestOffsetOfTheClock: an offset that can't be read is not taken for none.
func TestOffsetOfTheClock(t *testing.T) {
	offset, err := parseOffset("monotonic           0         0\nboottime           -7         5\n")
	require.NoError(t, err)
	require.Equal(t, -7*time.Second+5, offset)
	for _, text := range []string{"", "monotonic 0 0\n", "boottime x 0\n"} {
		_, err = parseOffset(text)
		require.ErrorContains(t, err, "boot time")
	}
	_, err = bootOffset("/proc")
	require.NoError(t, err)
	proc := t.TempDir()
	require.NoError(t, os.MkdirAll(proc+"/self/ns", 0o700))
	offset, err = bootOffset(proc)
	require.NoError(t, err)
	require.Zero(t, offset, "a kernel without time namespaces")
	require.NoError(t, os.Symlink("time:[1]", proc+"/self/ns/time"))
	_, err = bootOffset(proc)
	require.ErrorContains(t, err, "can't find out whether")
	require.NoError(t, os.Symlink("time:[2]", proc+"/self/ns/time_for_children"))
	require.NoError(t, os.WriteFile(proc+"/self/timens_offsets", []byte("boottime 1 0\n"), 0o600))
	_, err = bootOffset(proc)
	require.ErrorContains(t, err, "another time namespace")
}

package file

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

var openRole = role("open", func(dir string) error {
	st, err := Open(Config{Directory: dir})
	if err != nil {
		return err
	}
	return st.Close()
})

// instancesRole uses up the inotify instances of its user, but for one. The stores of a process share that. A process that
// finds none left says which setting to raise, and works once there is one.
var instancesRole = role("instances", func(dir string) error {
	var taken []int
	for {
		fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
		if err == syscall.EMFILE && len(taken) > 0 {
			break
		}
		if err != nil {
			return err
		}
		taken = append(taken, fd)
	}
	_ = syscall.Close(taken[0])
	for range 3 {
		st, err := Open(Config{Directory: dir})
		if err != nil {
			return fmt.Errorf("the stores of a process need more than one instance: %w", err)
		}
		defer st.Close()
	}
	other := func() (string, error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{roleVariable + "=" + openRole + ":" + fmt.Sprintf("%q", dir)}
		stdin, err := cmd.StdinPipe() // else it would end at once
		if err != nil {
			return "", err
		}
		defer stdin.Close()
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	text, err := other()
	if err == nil || !strings.Contains(text, "fs.inotify.max_user_instances") || !strings.Contains(text, store.ErrUnavailable.Error()) {
		return fmt.Errorf("without an instance: %w: %s", err, text)
	}
	_ = syscall.Close(taken[1])
	if text, err = other(); err != nil {
		return fmt.Errorf("with an instance: %w: %s", err, text)
	}
	return nil
})

// TestMoreProcessesThanInotifyInstances runs as a user of its own, as the instances are counted by user.
func TestMoreProcessesThanInotifyInstances(t *testing.T) {
	needRoot(t)
	dir := reachable(t, t.TempDir())
	require.NoError(t, os.Chmod(dir, 0o777))
	user := uint32(100_000 + rand.N(1_000_000))
	p := start(t, instancesRole, dir+"/store", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	})
	p.ended(t, soon(t))
}

// TestFileSystemsOfTheKernel: those that are no place for files are refused, by what the system says of them.
func TestFileSystemsOfTheKernel(t *testing.T) {
	for _, dir := range []string{"/proc/leadership", "/sys/leadership"} {
		_, err := Open(Config{Directory: dir})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "use a directory on ext4")
	}
}

// TestDirectoryIsRemovedUnderProcesses: some process leads again, with a higher token, each time the directory is removed.
func TestDirectoryIsRemovedUnderProcesses(t *testing.T) {
	c := newChaos(t, 5, time.Second, 0)
	defer func() {
		for _, p := range c.members {
			c.bury(p)
		}
	}()
	var last uint64
	for range 5 {
		led := func() bool {
			for _, p := range c.members {
				require.False(t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
				if token, leads := p.journal.leads(); leads && token > last {
					last = token
					return true
				}
			}
			return false
		}
		require.Eventually(t, led, 30*time.Second, time.Millisecond, "a leader with a token above %d", last)
		if err := os.RemoveAll(c.directory + "/store"); err != nil { // what is made meanwhile stays
			require.True(t, errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOENT), "%v", err)
		}
	}
}

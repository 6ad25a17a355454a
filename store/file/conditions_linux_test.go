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

	"github.com/go-leadership/leadership/internal/lab/storetest"
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

// instancesRole uses up all inotify instances of its user but one. The stores of a process share that one. A process
// that finds none left names the setting to raise, and works once there is one.
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
		stdin, err := cmd.StdinPipe() // otherwise it would end at once
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

// TestMoreProcessesThanInotifyInstances runs as a user of its own, since instances are counted for each user.
func TestMoreProcessesThanInotifyInstances(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := reachable(t, t.TempDir())
	require.NoError(t, os.Chmod(dir, 0o777))
	user := uint32(100_000 + rand.N(1_000_000))
	p := start(t, instancesRole, dir+"/store", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	})
	p.ended(t, soon(t))
}

// TestDirectoryIsRemovedUnderProcesses: some process leads again, with a higher token, each time the directory is removed.
func TestDirectoryIsRemovedUnderProcesses(t *testing.T) {
	t.Parallel()
	c := newChaos(t, 5, 2*time.Second, 0)
	defer func() {
		for _, p := range c.members {
			c.bury(p)
		}
	}()
	var last uint64
	for range 3 {
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
		storetest.Eventually(t, led, "a leader with a token above %d", last)
		if err := os.RemoveAll(c.directory + "/store"); err != nil { // what is made meanwhile stays
			require.True(t, errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOENT), "%v", err)
		}
	}
}

// leadsAbove waits until a process leads with a token that is higher than one, and returns its token.
func (c *chaos) leadsAbove(last uint64) (token uint64) {
	c.t.Helper()
	storetest.Eventually(c.t, func() bool {
		for _, p := range c.members {
			if now, leads := p.journal.leads(); leads && now > last {
				token = now
				return true
			}
		}
		return false
	}, "a leader with a token above %d", last)
	return token
}

// TestFullDiskUnderProcesses: the disk is full for more than a TTL, and then has room again. Each process survives and
// leads again, no two lead at a time, and tokens grow.
func TestFullDiskUnderProcesses(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("NOT TESTED: a small file system can't be mounted:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	c := newChaos(t, 0, time.Second, 0)
	c.store = dir + "/store"
	c.grow(3)
	last := c.leadsAbove(0)
	for range 2 {
		full := false
		var fillers []string
		for end := bootTime() + c.ttl*3/2; bootTime() < end; time.Sleep(time.Millisecond) { // all space that becomes free
			name := fmt.Sprint(dir, "/", len(fillers))
			if err := os.WriteFile(name, make([]byte, 16<<10), 0o600); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				full = true
			}
			fillers = append(fillers, name)
		}
		require.True(t, full)
		for _, name := range fillers {
			if err := os.Remove(name); !missing(err) {
				require.NoError(t, err)
			}
		}
		now := uint64(0)
		for _, p := range c.members {
			require.False(t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
			token, _ := p.journal.leads()
			now = max(now, token)
		}
		last = c.leadsAbove(max(last, now))
	}
	c.end()
}

// end ends all processes, and requires that no two led at a time and that tokens grew.
func (c *chaos) end() {
	for _, p := range c.members {
		c.bury(p)
	}
	c.members = nil
	violations, _ := c.report.violations()
	for _, v := range violations {
		require.Contains(c.t, v.what, "no leader", c.report.around(v.from, v.to))
	}
}

// TestDirectoryIsLockedUnderProcesses: the processes of a user may not read the directory any more, or not write to it.
// They report that and end. When they may again, others lead, with higher tokens.
func TestDirectoryIsLockedUnderProcesses(t *testing.T) {
	needRoot(t)
	c := newChaos(t, 0, time.Second, 0)
	require.NoError(t, os.Chmod(reachable(t, c.directory), 0o777))
	c.as = []func(*exec.Cmd){func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: group}}
	}}
	last := uint64(0)
	for _, mode := range []os.FileMode{0, 0o500} {
		c.grow(3)
		last = c.leadsAbove(last)
		locked := []string{"/e/chaos/_b", "/e/chaos/_q", "/e/chaos/_a", "/e/chaos", "/s", "/t", "/f", ""} // upwards
		for _, path := range locked {
			require.NoError(t, os.Chmod(c.store+path, mode))
		}
		for _, p := range c.members {
			select {
			case <-p.done:
				require.Contains(t, p.errors.String(), store.ErrDenied.Error())
			case <-soon(t).Done():
				require.Fail(t, "the process does not end", "mode %v", mode)
			}
			token, _ := p.journal.leads()
			last = max(last, token)
		}
		c.end()
		for _, path := range locked {
			require.NoError(t, os.Chmod(c.store+path, 0o700))
		}
	}
	c.grow(3)
	c.leadsAbove(last)
	c.end()
}

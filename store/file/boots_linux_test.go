package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bootMember is what a process with a boot id of its own is given.
type bootMember struct {
	Directory string
	Journal   string
	BootID    string // a file; empty: the process has the machine's
}

// bootTTL is so long that the process that is stopped keeps its session.
const bootTTL = 20 * time.Second

// bootRole leads one short term after the other. A process with a boot id of its own stops itself once, just before it
// makes its first ticket.
var bootRole = role("boot", func(m bootMember) error {
	stopped := m.BootID == ""
	if !stopped {
		if err := mountBootID(m.BootID); err != nil {
			return err
		}
	}
	j, err := openJournal(m.Journal)
	if err != nil {
		return err
	}
	config := completed(Config{Directory: m.Directory, TTL: bootTTL})
	d, err := newDriverWith(config, hooked{ops: kernel{}, beforeSymlink: func(_, path string) {
		if !stopped && strings.Contains(path, "/_q/") {
			stopped = true
			_ = syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), syscall.SIGSTOP) // this thread stops in the call
		}
	}}, nil)
	if err != nil {
		return err
	}
	c, err := leadership.NewCandidate(journaled{newStore(d, config), j}, "e", "member", nil)
	if err != nil {
		return err
	}
	for {
		term, err := c.Campaign(context.Background())
		if errors.Is(err, store.ErrLost) { // the election was cleared
			continue
		}
		if err != nil {
			return err
		}
		j.lead(c, term, 0)
		_ = term.Withdraw(context.Background())
	}
})

// mountBootID shows this process another boot id, as LXC and systemd-nspawn do.
func mountBootID(file string) error {
	const shown = "/proc/sys/kernel/random/boot_id"
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") // not to other processes
	if err == nil {
		err = syscall.Mount(file, shown, "", syscall.MS_BIND, "")
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(shown)
	if err == nil && string(text) != "another\n" {
		err = fmt.Errorf("the boot id is %q", text)
	}
	return err
}

// TestBootIDsDiffer: a process in a container, which is shown another boot id, is stopped before it makes its ticket,
// while one on the host leads 300 terms. When it goes on, only one of the two leads at any time, and tokens grow, also
// after the host has cleared the election.
func TestBootIDsDiffer(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	id := dir + "/boot_id"
	require.NoError(t, os.WriteFile(id, []byte("another\n"), 0o600))
	report := chaosReport{ttl: bootTTL}
	begin := func(name, bootID string) *chaosProcess {
		p := &chaosProcess{name: name}
		path := dir + "/" + name + ".journal"
		var err error
		p.journal, err = openJournal(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.journal.close()) })
		p.process = start(t, bootRole, bootMember{dir + "/store", path, bootID}, func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		})
		return p
	}
	terms := func(p *chaosProcess, least int) {
		t.Helper()
		require.Eventually(t, func() bool {
			require.False(t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
			return len(p.journal.tenures(p.name, 0)) >= least
		}, time.Minute, time.Millisecond, "%d terms of the %s", least, p.name)
	}
	bury := func(p *chaosProcess) {
		killed := bootTime()
		p.kill()
		report.add(p, killed)
	}

	host := begin("host", "")
	terms(host, 1)
	container := begin("container", id)
	for err := error(syscall.EINTR); err != nil; {
		err = unix.Waitid(unix.P_PID, container.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		require.True(t, err == nil || err == syscall.EINTR, "wait for the stop: %v", err)
	}
	at := len(host.journal.tenures("host", 0))
	terms(host, at+300)
	require.NoError(t, container.Process.Signal(syscall.SIGCONT))
	terms(container, 20)
	bury(host)

	now := func() int { return len(container.journal.tenures("container", 0)) }
	terms(container, now()+5)
	require.NoError(t, openWith(t, configIn(dir+"/store"), kernel{}).Clear(soon(t), "e"))
	terms(container, now()+5)
	bury(container)
	report.check(t)
}

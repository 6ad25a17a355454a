package faults

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/cmd/leadership/faults/internal/pulse"
	"github.com/stretchr/testify/require"
)

// contender is a wrapper that runs a beating command while it leads.
type contender struct {
	*exec.Cmd
	pulse *pulse.Pulse
	file  string // of the pulse
	log   string
	cg    string // its cgroup of version 2, or ""
	undo  func() // removes what keeps it from ending; or nil
}

// start starts a contender of a trial. The end of the test ends it, and requires that nothing is left of its command.
func (c *cell) start(t testing.TB, name, url string, cgroups ...string) *contender {
	t.Helper()
	x := &contender{file: c.dir + "/" + name + ".pulse", log: c.dir + "/" + name + ".log"}
	var err error
	var fd int
	x.pulse, fd, err = pulse.Open(x.file)
	require.NoError(t, err)
	_ = syscall.Close(fd)
	require.NoError(t, os.Chmod(x.file, 0o666))
	if c.machine.unified != "" {
		x.cg = group(t, c.machine.unified)
		cgroups = append(cgroups, x.cg)
	}
	variant := c.variant
	if name != "old" {
		variant = "plain"
	}
	argv := c.wrapper.command(c, name, url, []string{c.programs.beat, "run", x.file, variant})
	enter := []string{"enter", "-cgroups=" + strings.Join(cgroups, ","), "-deny=" + strconv.FormatBool(c.mode == subreaper)}
	if c.user == ordinary && c.machine.root {
		enter = append(enter, "-user=65534")
	}
	x.Cmd = exec.Command(c.programs.beat, append(append(enter, "--"), argv...)...)
	x.Dir = c.dir
	x.Env = append(c.wrapper.env, "PATH="+os.Getenv("PATH"), "TMPDIR="+os.TempDir(), "HOME="+c.dir)
	log, err := os.Create(x.log)
	require.NoError(t, err)
	defer log.Close()
	x.Stdout, x.Stderr = log, log
	require.NoError(t, x.Start())
	t.Cleanup(func() { x.end(t) })
	return x
}

// end ends the wrapper and its command, frozen or not. The wrapper is reaped last: its process id, by which the others
// are found, must not become another process's.
func (x *contender) end(t testing.TB) {
	atomic.StoreInt64(&x.pulse.Stop, 1)
	if x.undo != nil {
		x.undo()
	}
	if x.cg != "" {
		set(t, x.cg, "cgroup.freeze", "0")
	}
	kill(t, syscall.SIGKILL, x.pids()...)
	_ = x.Wait() // it was killed
	if !within(long, x.commandGone) {
		t.Errorf("the command of %s is still there", x.file)
	}
	if t.Failed() {
		text, _ := os.ReadFile(x.log)
		t.Logf("%s:\n%s", x.log, text)
	}
	if err := x.pulse.Close(); err != nil {
		t.Error(err)
	}
}

// commandGone reports whether no process of the command is left: each of them has the file locked.
func (x *contender) commandGone() bool {
	fd, err := syscall.Open(x.file, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd) // and with it the lock
	return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func (x *contender) started() int64 { return atomic.LoadInt64(&x.pulse.Start) }
func (x *contender) beats() int64   { return atomic.LoadInt64(&x.pulse.Count) }

// pids returns all processes of the contender that are left, parents first.
func (x *contender) pids() (pids []int) {
	for _, p := range tree(x.Process.Pid) {
		pids = append(pids, p.pid)
	}
	for _, line := range lines(x.cg + "/cgroup.procs") {
		pid, err := strconv.Atoi(line)
		if err == nil && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// named returns the process with a role: leadership-guardian or leadership-init; 0 if there is none.
func (x *contender) named(name string) int {
	for _, p := range tree(x.Process.Pid) {
		if p.name == name {
			return p.pid
		}
	}
	return 0
}

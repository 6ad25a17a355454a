package guard

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// command is the command, in the process that has started it: the init, or the guardian in mode Subreaper.
type command struct {
	settings settings
	args     []string
	pid      int // zero before it runs and after it has exited
	exited   bool
	stopped  bool // by stop
}

// start executes the command in a process group of its own. attr has what the mode adds.
func (c *command) start(attr syscall.SysProcAttr) report {
	attr.Setpgid = true
	attr.Foreground, attr.Ctty = c.settings.Terminal, 0
	pid, err := syscall.ForkExec(c.settings.Path, c.args, &syscall.ProcAttr{
		Env: os.Environ(), Files: append([]uintptr{0, 1, 2}, c.settings.inheritedFiles()...), Sys: &attr,
	})
	c.settings.closeInherited()
	if err != nil {
		r := report{Failed: err.Error()}
		_ = errors.As(err, &r.Errno)
		return r
	}
	c.pid = pid
	return report{Started: true, Pid: pid}
}

// signal sends a signal to the command's process group, or, once the command has exited, to what it has left.
func (c *command) signal(s syscall.Signal) {
	switch {
	case c.pid != 0:
		_ = unix.Kill(-c.pid, s)
	case c.exited && c.settings.Mode == Namespace:
		_ = unix.Kill(-1, s) // all but the init, which is the sender
	case c.exited:
		signalDescendants(s, func(int) bool { return false })
	}
}

// stop sends TERM, and CONT for a command that is stopped. If others outlive the command, they get it after its exit.
func (c *command) stop() {
	c.stopped = true
	c.signal(unix.SIGTERM)
	c.signal(unix.SIGCONT)
}

// changed takes note of a child's new state. It returns a report if the command has exited.
func (c *command) changed(pid int, status syscall.WaitStatus) (report, bool) {
	switch {
	case pid != c.pid:
	case ended(status):
		c.pid, c.exited = 0, true
		if c.stopped && c.settings.WaitAll {
			c.stop()
		}
		return report{Exited: true, Status: status}, true
	case status.Stopped() && status.StopSignal() == syscall.SIGTSTP && c.settings.Terminal:
		// Ctrl-Z: no shell sees that the command is stopped, and the lease would be renewed for nothing.
		_ = unix.Kill(-pid, unix.SIGCONT)
	}
	return report{}, false
}

// startError is the error of a report that the command could not be started.
func (r report) startError() error {
	if r.Errno != 0 {
		return &ExecError{Err: r.Errno}
	}
	return fmt.Errorf("guard: %s", r.Failed)
}

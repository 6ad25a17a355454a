package guard

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// command is the command and its probes, in the process that starts them: the init, or the guardian in mode Subreaper.
type command struct {
	settings settings
	attr     syscall.SysProcAttr // what the mode adds
	args     []string
	pid      int // zero before it runs and after it has exited
	exited   bool
	stopped  bool        // by stop
	probes   map[int]int // the number of each probe that runs, by its process id
}

// start executes the command in a process group of its own.
func (c *command) start() report {
	attr := c.attr
	attr.Setpgid = true
	attr.Foreground, attr.Ctty = c.settings.Terminal, 0
	pid, err := syscall.ForkExec(string(c.settings.Path), c.args, &syscall.ProcAttr{
		Env: os.Environ(), Files: append([]uintptr{0, 1, 2}, c.settings.inheritedFiles()...), Sys: &attr,
	})
	c.settings.closeInherited()
	if err != nil {
		return failed(err)
	}
	c.pid = pid
	return report{Started: true, Pid: pid}
}

func failed(err error) report {
	r := report{Failed: err.Error()}
	_ = errors.As(err, &r.Errno)
	return r
}

// probe starts or kills a probe. It returns a report if the probe could not be started.
func (c *command) probe(r request) (failure report, is bool) {
	if len(r.Path) == 0 {
		for pid, number := range c.probes {
			if number == r.Probe {
				_ = unix.Kill(-pid, unix.SIGKILL)
			}
		}
		return report{}, false
	}
	pid, err := c.startProbe(r)
	if err != nil {
		failure = failed(err)
		failure.Probe = r.Probe
		return failure, true
	}
	if c.probes == nil {
		c.probes = map[int]int{}
	}
	c.probes[pid] = r.Probe
	return report{}, false
}

func (c *command) startProbe(r request) (int, error) {
	if c.stopped {
		return 0, errors.New("the command is being stopped")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := c.attr
	attr.Setpgid = true
	return syscall.ForkExec(string(r.Path), stringsOf(r.Args), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), 2, 2}, Sys: &attr,
	})
}

// signal sends a signal to the command's process group or, if the command has exited, to the processes that are left.
// If the signal is SIGTERM or SIGINT, SIGCONT follows: a stopped process would not end otherwise.
func (c *command) signal(s syscall.Signal) {
	c.send(s)
	if s == unix.SIGTERM || s == unix.SIGINT {
		c.send(unix.SIGCONT)
	}
}

func (c *command) send(s syscall.Signal) {
	switch {
	case c.pid != 0:
		_ = unix.Kill(-c.pid, s)
	case c.exited && c.settings.Mode == Namespace:
		_ = unix.Kill(-1, s) // all but the init, which is the sender
	case c.exited:
		signalDescendants(s, func(int) bool { return false })
	}
}

// stop sends TERM to the command, and kills probes. Processes that outlive the command get TERM after its exit.
func (c *command) stop() {
	c.stopped = true
	for pid := range c.probes {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	c.signal(unix.SIGTERM)
}

// changed takes note of a child's new state. It returns a report if the command or a probe has exited, or the command
// is stopped.
func (c *command) changed(pid int, status syscall.WaitStatus) (report, bool) {
	number, probe := c.probes[pid]
	switch {
	case probe && ended(status):
		delete(c.probes, pid)
		return report{Probe: number, Status: status}, true
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
	case status.Stopped():
		return report{Note: fmt.Sprintf("the command is stopped by %s: it leads, and does nothing until SIGCONT", unix.SignalName(status.StopSignal()))}, true
	}
	return report{}, false
}

// startError is the error of a report that the command, or a probe, could not be started.
func (r report) startError(command string) error {
	switch {
	case r.Errno != 0:
		return &ExecError{command, r.Errno}
	case r.Late:
		return ErrLate
	}
	return fmt.Errorf("%s", r.Failed)
}

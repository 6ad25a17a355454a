package guard

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor is a guarded command, in the process that holds the lease. All fields below done belong to the goroutine
// of loop.
type supervisor struct {
	name    string // of the command, for errors
	link    link
	log     *slog.Logger
	calls   chan func()   // done by loop
	started chan error    // written by loop: whether the command runs; has room for the first report, which counts
	done    chan struct{} // closed by loop when nothing is left

	guardian int   // its process id; zero when it has been reaped
	spare    []int // children from before Start, which stay
	terminal bool  // the command has the terminal
	waitAll  bool
	children chan os.Signal
	reports  chan report         // closed by receive when the guardian is dead
	probes   map[int]chan report // by number: where the end of a probe that runs is told; each has room for it
	last     int                 // the number of the last probe
	owed     outbox              // requests that must not be lost
	patience time.Duration       // how long after kill the guardian is doubted, and killed a quarter later at the earliest
	watch    *time.Timer
	doubted  instant // the kill after which the watch has expired once
	end
}

// end is what is known about the end of a guarded command. Its fields do not change after done is closed.
type end struct {
	kill     instant // when the guardian kills the command, by its last report
	killed   bool    // Kill was called
	silent   bool    // the guardian had to be killed
	frozen   bool    // the guardian was seen stopped
	guardian syscall.WaitStatus
	pid      int // of the command, where it was started
	cause    Cause
	exited   bool
	status   syscall.WaitStatus // of the command, if it exited
	notes    []string
	at       instant
}

// one is locked while a supervisor reaps the children of this process.
var one sync.Mutex

// launch starts the guardian and sends the lease. If this process dies before the guardian is started, nothing is left.
// If this process dies before the lease is sent, the guardian sees the end of its link and exits. If this process dies
// later, the guardian ends the command; if the guardian dies too, the kernel ends the command.
func launch(s settings, c Config, deadline instant, patience time.Duration) (*supervisor, error) {
	if !one.TryLock() {
		return nil, errors.New("another command runs in this process")
	}
	v := &supervisor{
		log: c.logger(), calls: make(chan func()), started: make(chan error, 1),
		done: make(chan struct{}), terminal: s.Terminal, waitAll: s.WaitAll, children: watchChildren(), reports: make(chan report),
		probes: map[int]chan report{}, patience: patience, watch: time.NewTimer(0),
	}
	v.end.kill = deadline.add(-s.Margin)
	if len(c.Command) > 0 { // a self-test has none
		v.name = c.Command[0]
	}
	if err := v.spawn(s, c); err != nil {
		v.close()
		return nil, err
	}
	v.owed.link = v.link
	_ = v.link.send(request{Deadline: deadline}) // if the guardian is dead already, loop reaps it
	go receive(v.link, v.reports)
	go v.loop()
	return v, nil
}

func (v *supervisor) spawn(s settings, c Config) (err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	var theirs link
	if v.link, theirs, err = newLinks(); err != nil {
		return err
	}
	defer theirs.file.Close()
	var files []uintptr
	for _, f := range slices.Concat(c.Files, c.Keep) {
		files = append(files, f.Fd())
	}
	s.Files, s.Keep = len(c.Files), len(c.Keep)
	v.spare, _ = childrenOf("self")
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	v.guardian, err = spawn(guardianName, s, c.Command, theirs, files, syscall.ProcAttr{
		Dir: c.Dir, Env: env, Sys: &syscall.SysProcAttr{Setpgid: true}, // a Ctrl-C is not for the guardian
	})
	return err
}

// close gives back what launch has taken.
func (v *supervisor) close() {
	signal.Stop(v.children)
	v.watch.Stop()
	if v.link.file != nil {
		_ = v.link.file.Close()
	}
	one.Unlock()
}

// loop ends when wait4 says ECHILD, not when the guardian has exited: this process adopts the descendants of a dead
// guardian.
func (v *supervisor) loop() {
	defer close(v.done)
	defer v.close()
	reports, sweeps := v.reports, 0
	v.setWatch()
	for !v.gone() {
		var again <-chan time.Time
		switch {
		case v.guardian == 0:
			signalDescendants(unix.SIGKILL, v.spared)
			again = time.After(pause(sweeps)) // what was started meanwhile
			sweeps++
		case v.owed.flush():
			again = time.After(flushInterval)
		}
		select {
		case f := <-v.calls:
			f()
		case r, ok := <-reports:
			if !ok {
				reports = nil
				break
			}
			v.handle(r)
		case <-v.watch.C:
			v.overdue()
		case <-again:
		case <-v.children:
		}
	}
	if reports != nil {
		for r := range reports {
			v.handle(r)
		}
	}
	v.at = now()
	if v.terminal {
		TakeTerminal()
	}
}

// gone reaps and reports whether nothing is left. Without children from before Start, only wait4 says so.
func (v *supervisor) gone() bool {
	if reap(v.changed) {
		return true
	}
	if v.guardian != 0 || len(v.spare) == 0 {
		return false
	}
	children, err := childrenOf("self")
	return err == nil && !slices.ContainsFunc(children, func(pid int) bool { return !v.spared(pid) })
}

func (v *supervisor) spared(pid int) bool { return slices.Contains(v.spare, pid) }

func (v *supervisor) changed(pid int, status syscall.WaitStatus) {
	if !ended(status) {
		v.frozen = v.frozen || pid == v.guardian
		return
	}
	if pid == v.guardian {
		v.guardian, v.end.guardian = 0, status
	}
	v.spare = slices.DeleteFunc(v.spare, func(p int) bool { return p == pid })
}

func (v *supervisor) handle(r report) {
	if r.Note != "" {
		v.notes = append(v.notes, r.Note)
		v.log.Warn(r.Note)
	}
	switch {
	case r.Probe != 0:
		if probe := v.probes[r.Probe]; probe != nil {
			probe <- r
			delete(v.probes, r.Probe)
		}
	case r.Started:
		v.pid = r.Pid
		v.tellStarted(nil)
	case r.Failed != "":
		v.tellStarted(r.startError(v.name))
	case r.Kill != 0:
		if r.Kill != v.kill { // else the report would take back the second chance that overdue gives
			v.kill = r.Kill
			v.setWatch()
		}
	case r.Exited:
		v.exited, v.status = true, r.Status
		v.because(Exited)
	case r.Cause != "":
		v.because(r.Cause)
	}
}

// tellStarted tells whether the command runs. The first report counts: if the init fails, the init and the guardian
// might both report.
func (v *supervisor) tellStarted(err error) {
	select {
	case v.started <- err:
	default:
	}
}

// because notes why the command ends. The first reason counts, with one exception: if the command has exited, and its
// remaining processes are ended later, the reason for that replaces the exit.
func (v *supervisor) because(c Cause) {
	if v.cause == "" || v.cause == Exited && v.waitAll {
		v.cause = c
	}
}

// setWatch sets the time at which the guardian must have ended the command. After a suspension of the machine the watch
// is late, but the kernel's timer is not.
func (v *supervisor) setWatch() { v.watch.Reset(max(0, v.kill.add(v.patience).sub(now()))) }

// overdue kills a guardian that has not ended the command in time. If this process was stopped, the guardian might have
// reported a renewal meanwhile, or be dead: loop must handle these first.
func (v *supervisor) overdue() {
	switch {
	case now() < v.kill.add(v.patience):
		v.setWatch()
	case v.doubted != v.kill || v.link.pending():
		v.doubted = v.kill
		v.watch.Reset(v.patience / 4)
	case v.guardian != 0:
		v.silent = true
		v.killGuardian()
	}
}

// killGuardian ends everything. When the guardian dies, the kernel kills the namespace, or in the mode Subreaper the
// command. This process adopts the other descendants, and kills them.
func (v *supervisor) killGuardian() {
	if v.guardian != 0 {
		_ = unix.Kill(v.guardian, unix.SIGKILL)
	}
}

package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespace is the init of a PID namespace, seen from the guardian.
type namespace struct {
	settings settings
	args     []string
	pid      int // of the init; zero when it has been reaped
	requests outbox
	messages chan report // closed by receive when the init is dead
}

// start clones the init, and then sends the message to start the command. When ForkExec returns, the init has been set
// to die with this thread.
func (n *namespace) start() error {
	ours, theirs, err := newLinks()
	if err != nil {
		return err
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if n.settings.User {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // for /proc: an ordinary user loses them at exec otherwise
	}
	n.pid, err = spawn(initName, n.settings, n.args, theirs, append(n.settings.inheritedFiles(), n.settings.keptFiles()...), syscall.ProcAttr{Env: os.Environ(), Sys: attr})
	_ = theirs.file.Close()
	n.settings.closeInherited()
	if err != nil {
		return err
	}
	n.requests.link, n.messages = ours, make(chan report)
	go receive(ours, n.messages)
	beforeStart()
	return ours.send(request{Start: true})
}

// beforeStart is called after the init has been cloned and before it starts the command. Tests replace it.
var beforeStart = func() {}

func (n *namespace) reports() <-chan report { return n.messages }

func (n *namespace) signal(s syscall.Signal) {
	if n.pid != 0 {
		n.requests.send(request{Signal: s})
	}
}

func (n *namespace) probe(r request) {
	if n.pid != 0 {
		n.requests.send(r)
	}
}

func (n *namespace) stop() {
	if n.pid != 0 {
		n.requests.send(request{Stop: true})
	}
}

func (n *namespace) unsent() bool { return n.pid != 0 && n.requests.flush() }

// kill kills the init. The kernel then kills all processes of the namespace.
func (n *namespace) kill() {
	if n.pid != 0 {
		_ = unix.Kill(n.pid, unix.SIGKILL)
	}
}

func (n *namespace) changed(pid int, status syscall.WaitStatus) bool {
	switch {
	case pid != n.pid:
	case ended(status):
		n.pid = 0
	case status.Stopped():
		// A stopped init would not see that the command exits, and the lease would be renewed for nothing.
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	return false // the kernel has killed the rest, or the init would not have ended
}

// tree is the command and its descendants, which the guardian adopts.
type tree struct {
	command
	report func(report)
}

func (t *tree) start() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if !t.settings.SelfTest {
		t.attr.Pdeathsig = syscall.SIGKILL
		t.report(t.command.start())
	}
	return nil
}

func (t *tree) reports() <-chan report { return nil }

func (t *tree) unsent() bool { return false }

func (t *tree) probe(r request) {
	if failure, is := t.command.probe(r); is {
		t.report(failure)
	}
}

func (t *tree) kill() { signalDescendants(unix.SIGKILL, func(int) bool { return false }) }

func (t *tree) changed(pid int, status syscall.WaitStatus) bool {
	r, is := t.command.changed(pid, status)
	if is {
		t.report(r)
	}
	return r.Exited && !t.settings.WaitAll
}

package guard

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// initMain is PID 1 of the namespace. It starts the command, reaps, and passes signals on. When the init exits, the
// kernel kills the rest of the namespace. The init dies with the guardian: see guardianMain.
func initMain(s settings, args []string) {
	guardian, requests := newLink(linkFD), make(chan request)
	children := watchChildren()
	// The guardian has set it before, but exec clears it if exec changes the credentials. If the guardian is dead by now,
	// the link has ended, and mayStart returns false.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		_ = guardian.send(report{Failed: os.NewSyscallError("prctl", err).Error()})
		return
	}
	if note := mountProc(); note != "" {
		_ = guardian.send(report{Note: note})
	}
	if err := dropCapabilities(s.User); err != nil {
		_ = guardian.send(report{Failed: err.Error()})
		return
	}
	if !mayStart(guardian) {
		return
	}
	go receive(guardian, requests)
	if s.SelfTest {
		_ = guardian.send(report{Started: true, Pid: os.Getpid()})
		<-requests // until the guardian dies, and this process with it
		return
	}
	initLoop(guardian, requests, children, &command{settings: s, args: args})
}

// mayStart waits for the message to start. It returns false if the guardian is dead, even if the message has come: if
// the guardian died before PR_SET_PDEATHSIG was set, the kernel does not kill this process.
func mayStart(guardian link) bool {
	r, ok := receiveOne[request](guardian)
	return ok && r.Start && !guardian.ended()
}

func initLoop(guardian link, requests <-chan request, children <-chan os.Signal, c *command) {
	started := c.start()
	_ = guardian.send(started)
	if !started.Started {
		return
	}
	for {
		none := reap(func(pid int, status syscall.WaitStatus) {
			if r, is := c.changed(pid, status); is {
				_ = guardian.send(r)
			}
		})
		if none || c.exited && !c.settings.WaitAll {
			return
		}
		select {
		case r, ok := <-requests:
			if !ok {
				return // the guardian is dead
			}
			switch {
			case r.Stop:
				c.stop()
			case r.Probe != 0:
				if failure, is := c.probe(r); is {
					_ = guardian.send(failure)
				}
			default:
				c.signal(r.Signal)
			}
		case <-children:
		}
	}
}

// mountProc gives the namespace its own /proc. Only the mount at /proc is made private, so that other mounts which the
// command makes are visible outside as before. It returns a note for the user, if there is one.
func mountProc() string {
	err := unix.Mount("", "/proc", "", unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err != nil {
		return fmt.Sprintf("/proc shows the process ids outside of the command's namespace: it can't be mounted: %v", err)
	}
	return ""
}

// dropCapabilities drops the capabilities that the user namespace gave. It is enough for this thread to drop them: this
// thread starts the command.
func dropCapabilities(user bool) error {
	if !user {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData // which empties the ambient set, too
	return os.NewSyscallError("capset", unix.Capset(&header, &none[0]))
}

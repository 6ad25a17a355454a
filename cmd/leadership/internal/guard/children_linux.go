package guard

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchChildren returns a channel that has a value whenever a child may have changed its state.
func watchChildren() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCHLD)
	return c
}

// reap calls changed for each child that has exited or stopped. It reports whether wait4 says ECHILD: no child is left,
// nor, if this process is a subreaper or an init, any other descendant. It does not block.
//
// One goroutine of a process reaps all children, and sends all signals to them. So a process id means the same child
// until reap has passed that id to changed.
func reap(changed func(pid int, status syscall.WaitStatus)) (none bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD:
			return true
		case err != nil || pid == 0:
			return false
		default:
			changed(pid, status)
		}
	}
}

func ended(status syscall.WaitStatus) bool { return status.Exited() || status.Signaled() }

// childrenOf returns the children of all threads of a process, zombies included.
func childrenOf(pid string) ([]int, error) {
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, task := range tasks {
		list, err := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children, nil
}

// checkChildren reports whether this process can find its descendants: CONFIG_PROC_CHILDREN, and /proc.
func checkChildren() error {
	if _, err := os.ReadFile("/proc/thread-self/children"); err != nil {
		return fmt.Errorf("the kernel does not list the children of a process: %w", err)
	}
	return nil
}

// signalDescendants sends a signal to every descendant of this process, except the children that spare names and their
// descendants. A process might start another one meanwhile. A caller that kills all descendants therefore reaps, and
// calls signalDescendants again, until nothing is left.
//
// Between the reading of a grandchild's process id and the signal, the grandchild's parent might reap the grandchild,
// and the kernel might give the id to another process. But the kernel uses all other ids first, which takes far longer
// than these microseconds.
func signalDescendants(signal syscall.Signal, spare func(pid int) bool) {
	seen := map[int]bool{}
	for {
		before := len(seen)
		direct, err := childrenOf("self")
		if err != nil {
			return
		}
		for _, pid := range direct {
			if !spare(pid) {
				signalFamily(signal, pid, seen)
			}
		}
		if len(seen) == before {
			return
		}
	}
}

func signalFamily(signal syscall.Signal, pid int, seen map[int]bool) {
	children, _ := childrenOf(strconv.Itoa(pid)) // before the process dies: its children get another parent then
	if !seen[pid] {
		seen[pid] = true
		_ = unix.Kill(pid, signal)
	}
	for _, child := range children {
		signalFamily(signal, child, seen)
	}
}

// pause is the time between two sweeps through the descendants. The pause grows, for descendants that have changed
// their user and can't be killed.
func pause(sweeps int) time.Duration {
	return min(1+time.Duration(sweeps/100), 50) * time.Millisecond
}

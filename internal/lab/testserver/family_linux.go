package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// children returns the process's children, also those that have ended and that it has not waited for.
func (p *process) children() []child {
	if p.ended() {
		return nil // another process might have its number
	}
	var found []child
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		var c child
		var parent int
		name, rest := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')') // a name may have both
		if name < 0 || rest < 0 {
			continue
		}
		_, err = fmt.Sscan(string(text[:name]), &c.pid)
		if _, err2 := fmt.Sscanf(string(text[rest+1:]), " %c %d", &c.state, &parent); err == nil && err2 == nil && parent == p.cmd.Process.Pid {
			found = append(found, c)
		}
	}
	return found
}

// child is a child of a process, with the state as the kernel names it.
type child struct {
	pid   int
	state rune
}

func (c child) ended() bool { return c.state == 'Z' || c.state == 'X' }

func (c child) stopped() bool { return c.state == 'T' }

// stopChildren stops the children of a process that is stopped itself, and so has no further ones. They would not end
// with this process: the guard lets them go on then, and they notice that their parent is gone.
func (p *process) stopChildren() error {
	p.guarding.Lock()
	defer p.guarding.Unlock()
	for p.guard == nil {
		living := slices.DeleteFunc(p.children(), child.ended)
		if !slices.ContainsFunc(living, func(c child) bool { return !c.stopped() }) {
			return p.guardChildren(living)
		}
		for _, c := range living {
			if err := signalChild(c, syscall.SIGSTOP); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond) // nothing tells that another process's child has stopped
	}
	return nil
}

func (p *process) guardChildren(children []child) (err error) {
	if len(children) == 0 {
		return nil
	}
	var pids []string
	for _, c := range children {
		pids = append(pids, fmt.Sprint(c.pid))
	}
	p.guard, err = startGuard(`kill -CONT "$@" 2>/dev/null || true`, pids...)
	return err
}

// resumeChildren lets the children go on, if they were stopped.
func (p *process) resumeChildren() error {
	p.guarding.Lock()
	defer p.guarding.Unlock()
	if p.guard == nil {
		return nil
	}
	guard := p.guard
	p.guard = nil
	return guard.release()
}

// killChildren kills the children of a process, which stands still meanwhile and so has no further ones.
func (p *process) killChildren() error {
	if len(p.children()) == 0 {
		return nil
	}
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := p.awaitStop(); err != nil {
		return err
	}
	for {
		living := slices.DeleteFunc(p.children(), child.ended)
		if len(living) == 0 {
			return nil
		}
		for _, c := range living {
			if err := signalChild(c, syscall.SIGKILL); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond) // until they have ended
	}
}

// signalChild sends a signal. It is no error if the child has ended.
func signalChild(c child, s syscall.Signal) error {
	if err := syscall.Kill(c.pid, s); err != nil && err != syscall.ESRCH {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

func killPID(pid int) error { return signalChild(child{pid: pid}, syscall.SIGKILL) }

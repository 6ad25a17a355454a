package testserver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a child process that has been started. Its methods may be called
// at the same time.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed by run once the process has been reaped
	paused atomic.Bool

	guarding sync.Mutex
	guard    *guard // of the children that are stopped, or nil; guarded by guarding
}

// startProcess starts a process that ends when this one does.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = cmp.Or(cmd.SysProcAttr, new(syscall.SysProcAttr))
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // a Ctrl-C at the terminal is for us; we decide what becomes of the server
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		<-p.exited
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end, on one thread that lives as
// long as the process does: the kernel sends Pdeathsig when the thread that
// started the process ends, not only when all of this process does.
func (p *process) run(started chan<- error) {
	defer close(p.exited)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()       // how it ended does not matter: a signal is as good as an exit
		_ = p.resumeChildren() // they end when they notice; if they have ended, there is nothing to resume
	}
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// stop asks the process to end by a signal, and kills it if that takes too long.
func (p *process) stop(s syscall.Signal, timeout time.Duration) error {
	// Only a process that goes on can act on a signal.
	if err := errors.Join(p.signal(s), p.resume()); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(timeout):
		return errors.Join(fmt.Errorf("testserver: process still ran %v after signal %q", timeout, s), p.kill())
	}
}

func (p *process) kill() error {
	if err := errors.Join(p.killChildren(), p.signal(syscall.SIGKILL)); err != nil {
		return err
	}
	<-p.exited
	return nil
}

func (p *process) pause() error {
	p.paused.Store(true)
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(p.awaitStop(), p.stopChildren())
}

func (p *process) resume() error {
	defer p.paused.Store(false)
	return errors.Join(p.resumeChildren(), p.signal(syscall.SIGCONT))
}

// signal sends a signal. It is no error if the process has ended.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// awaitStop returns once all threads of the process stand still, or it has
// ended. It takes nothing away from the Wait in run.
func (p *process) awaitStop() error {
	const pPID, options = 1, syscall.WSTOPPED | syscall.WEXITED | syscall.WNOWAIT
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(p.cmd.Process.Pid), 0, options, 0, 0)
		switch errno {
		case syscall.EINTR:
		case 0, syscall.ECHILD:
			return nil
		default:
			return os.NewSyscallError("waitid", errno)
		}
	}
}

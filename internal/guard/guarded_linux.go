package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func start(c Config, lease func() time.Duration) (running, error) {
	if c.Mode.Kind == Unguarded {
		return startPlain(c, lease)
	}
	path, err := c.path()
	if err != nil {
		return nil, err
	}
	deadline, err := deadlineOf(lease)
	if err != nil {
		return nil, err
	}
	m1, m2 := margins(c.TTL)
	v, err := launch(settings{
		Mode: c.Mode.Kind, User: c.Mode.UserNamespace, Path: path, Margin: m1, TimerMargin: m2, StopTimeout: c.StopTimeout,
		WaitAll: c.WaitAll, Terminal: ownsTerminal(),
	}, c, deadline, m2/2) // between the guardian's time to kill and the kernel's
	if err != nil {
		return nil, err
	}
	if err := v.running(c.Command); err != nil {
		return nil, err
	}
	return v, nil
}

// deadlineOf reads the clock before the lease, so that what is left is counted from too early and never too late.
func deadlineOf(lease func() time.Duration) (instant, error) {
	at := now()
	left := lease()
	if left <= 0 {
		return 0, errors.New("guard: the lease has ended")
	}
	return at.add(left), nil
}

// running waits until the command runs, or until nothing is left of what was to run it.
func (v *supervisor) running(command []string) error {
	select {
	case err := <-v.started:
		if err == nil {
			return nil
		}
		<-v.done
		if failed := new(ExecError); errors.As(err, &failed) && len(command) > 0 {
			failed.Command = command[0]
		}
		return err
	case <-v.done:
	}
	select {
	case err := <-v.started:
		return err
	default:
		return fmt.Errorf("guard: the guardian ended before the command ran: %s", describe(v.end.guardian))
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// call has loop do f and returns its error.
func (v *supervisor) call(f func() error) error {
	result := make(chan error, 1)
	select {
	case v.calls <- func() { result <- f() }:
		return <-result
	case <-v.done:
		return ErrEnded
	}
}

func (v *supervisor) tell(r request) error {
	return v.call(func() error {
		switch err := v.link.send(r); {
		case errors.Is(err, unix.EAGAIN):
			return errors.New("guard: the guardian does not answer")
		case err != nil:
			return ErrEnded
		}
		return nil
	})
}

func (v *supervisor) renew(lease func() time.Duration) error {
	deadline, err := deadlineOf(lease)
	if err != nil {
		return err
	}
	return v.tell(request{Deadline: deadline})
}

func (v *supervisor) signal(s syscall.Signal) error { return v.tell(request{Signal: s}) }

func (v *supervisor) stop() { _ = v.tell(request{Stop: true}) }

func (v *supervisor) killNow() {
	_ = v.call(func() error {
		v.killed = true
		v.killGuardian()
		return nil
	})
}

func (v *supervisor) wait() Result {
	<-v.done
	r := Result{Cause: v.cause, Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
	if v.exited {
		r.Code, r.Signal = codeOf(v.status), 0
		if v.status.Signaled() {
			r.Signal = v.status.Signal()
		}
	}
	switch {
	case v.killed && v.cause != Exited:
		r.Cause = Killed
	case v.cause != "":
	case v.at >= v.end.kill:
		r.Cause = Deadline
	default:
		r.Cause = GuardianDied
	}
	return r
}

func codeOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func (v *supervisor) run(ctx context.Context, command []string) (int, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, &ExecError{command[0], err}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	pid, ended := 0, make(chan syscall.WaitStatus, 1)
	err = v.call(func() (err error) {
		pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
			Dir: v.dir, Env: v.env, Files: []uintptr{null.Fd(), 2, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		if err != nil {
			return &ExecError{command[0], err}
		}
		v.sides[pid] = ended
		return nil
	})
	if err != nil {
		return 0, err
	}
	select {
	case status := <-ended:
		return codeOf(status), nil
	case <-ctx.Done():
	}
	_ = v.call(func() error {
		if v.sides[pid] != nil {
			return unix.Kill(-pid, unix.SIGKILL)
		}
		return nil
	})
	return codeOf(<-ended), ctx.Err()
}

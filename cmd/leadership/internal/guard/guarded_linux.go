package guard

import (
	"context"
	"errors"
	"fmt"
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
		Mode: c.Mode.Kind, User: c.Mode.UserNamespace, Path: []byte(path), Margin: m1, TimerMargin: m2, StopTimeout: c.StopTimeout,
		WaitAll: c.WaitAll, Terminal: OwnsTerminal(),
	}, c, deadline, m2/2) // between the guardian's time to kill and the kernel's
	if err != nil {
		return nil, err
	}
	if err := v.running(lease); err != nil {
		return nil, err
	}
	return v, nil
}

// deadlineOf reads the clock before it calls lease, so the deadline might be too early and is never too late.
func deadlineOf(lease func() time.Duration) (instant, error) {
	at := now()
	left := lease()
	if left <= 0 {
		return 0, ErrLate
	}
	return at.add(left), nil
}

// startInterval is how often running looks at the lease.
const startInterval = 10 * time.Millisecond

// running waits until the command runs, or until the start has failed and no process is left. Meanwhile it passes on
// renewals: on a busy machine a start might take longer than the rest of the lease. lease may be nil.
func (v *supervisor) running(lease func() time.Duration) error {
	ticker := time.NewTicker(startInterval)
	defer ticker.Stop()
	var told instant
	for {
		select {
		case err := <-v.started:
			if err == nil {
				return nil
			}
			<-v.done
			return err
		case <-v.done:
			return v.notStarted()
		case <-ticker.C:
			told = v.renewed(lease, told)
		}
	}
}

// renewed passes on a renewal, or ends everything if the lease has ended. It returns the deadline that was passed on
// last.
func (v *supervisor) renewed(lease func() time.Duration, told instant) instant {
	if lease == nil {
		return told
	}
	deadline, err := deadlineOf(lease)
	switch {
	case err != nil:
		v.killNow()
	case deadline.sub(told) >= startInterval: // what is less is the clock's jitter
		if v.tell(request{Deadline: deadline}) == nil {
			return deadline
		}
	}
	return told
}

// notStarted returns why the command has not run.
func (v *supervisor) notStarted() error {
	select {
	case err := <-v.started:
		return err
	default:
	}
	if v.killed || v.cause == Deadline || v.at >= v.end.kill {
		return ErrLate
	}
	return fmt.Errorf("the guardian ended before the command ran: %s", describe(v.end.guardian))
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// call lets loop call f, and returns the error of f.
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
	return v.call(func() error { return v.send(r) })
}

// send is called only by loop.
func (v *supervisor) send(r request) error {
	switch err := v.link.send(r); {
	case errors.Is(err, unix.EAGAIN):
		return errors.New("the guardian does not answer")
	case errors.Is(err, unix.E2BIG):
		return err
	case err != nil:
		return ErrEnded
	}
	return nil
}

func (v *supervisor) renew(lease func() time.Duration) error {
	deadline, err := deadlineOf(lease)
	if err != nil {
		return err
	}
	return v.tell(request{Deadline: deadline})
}

func (v *supervisor) signal(s syscall.Signal) error { return v.tell(request{Signal: s}) }

func (v *supervisor) stop(timeout time.Duration) { v.owe(request{Stop: true, Timeout: timeout}) }

// owe sends a request as soon as the guardian's queue has room for it.
func (v *supervisor) owe(r request) {
	_ = v.call(func() error {
		v.owed.send(r)
		return nil
	})
}

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
	if r.Cause == Exited && v.waitAll && v.end.guardian.Signaled() {
		r.Cause = "" // what the command had left did not end by itself
	}
	switch {
	case v.killed && r.Cause != Exited:
		r.Cause = Killed
	case r.Cause != "":
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

// run asks the process that started the command to start the probe too, so that the probe ends as the command does.
func (v *supervisor) run(ctx context.Context, probe []string) (int, error) {
	path, err := exec.LookPath(probe[0])
	if err != nil {
		return 0, &ExecError{probe[0], err}
	}
	number, ended := 0, make(chan report, 1)
	err = v.call(func() error {
		v.last++
		number = v.last
		err := v.send(request{Probe: number, Path: []byte(path), Args: bytesOf(probe)})
		if err == nil {
			v.probes[number] = ended
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	select {
	case r := <-ended:
		return r.probeResult(probe[0])
	case <-v.done:
		return 0, ErrEnded
	case <-ctx.Done():
	}
	v.owe(request{Probe: number})
	return 0, ctx.Err()
}

func (r report) probeResult(name string) (code int, err error) {
	if r.Failed == "" {
		return codeOf(r.Status), nil
	}
	return 0, r.startError(name)
}

package guard

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// plain is an unguarded command: a child, which this process ends if it can. All fields below done belong to the
// goroutine of loop.
type plain struct {
	cmd    *exec.Cmd
	config Config
	calls  chan func()   // done by loop
	exited chan struct{} // closed by a goroutine that waits for the command
	done   chan struct{} // closed by loop

	kill   time.Time // before the lease ends
	stopAt time.Time // when its time to stop is over, if the command was sent TERM
	cause  Cause
	killed bool
}

func startPlain(c Config, lease func() time.Duration) (*plain, error) {
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = c.Env, c.Dir, slices.Concat(c.Files, c.Keep)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	p := &plain{
		cmd: cmd, config: c, calls: make(chan func()), exited: make(chan struct{}), done: make(chan struct{}),
	}
	if err := p.extend(lease); err != nil {
		return nil, err
	}
	if time.Until(p.kill) <= c.StopTimeout {
		return nil, ErrLate
	}
	setGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, &ExecError{c.Command[0], err}
	}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
	}()
	go p.loop()
	return p, nil
}

func (p *plain) extend(lease func() time.Duration) error {
	at := time.Now()
	left := lease()
	if left <= 0 {
		return ErrLate
	}
	m1, _ := margins(p.config.TTL)
	p.kill = at.Add(left - m1)
	return nil
}

func (p *plain) loop() {
	defer close(p.done)
	for {
		select {
		case <-p.exited:
			if !p.config.WaitAll {
				killGroup(p.cmd) // what the command left; a process that has left the group goes on
			}
			return
		case f := <-p.calls:
			f()
		case <-time.After(time.Until(p.due())):
			p.tick()
		}
	}
}

// due returns the time of the next tick.
func (p *plain) due() time.Time {
	switch {
	case p.killed:
		return time.Now().Add(time.Second)
	case p.stopAt.IsZero():
		return p.kill.Add(-p.config.StopTimeout)
	case p.stopAt.Before(p.kill):
		return p.stopAt
	}
	return p.kill
}

func (p *plain) tick() {
	if p.stopAt.IsZero() {
		p.end(Deadline, p.config.StopTimeout)
		return
	}
	p.killed = true
	killGroup(p.cmd)
}

func (p *plain) end(cause Cause, timeout time.Duration) {
	if p.cause == "" {
		p.cause, p.stopAt = cause, time.Now().Add(timeout)
		terminate(p.cmd)
	}
}

func (p *plain) call(f func() error) error {
	result := make(chan error, 1)
	select {
	case p.calls <- func() { result <- f() }:
		return <-result
	case <-p.done:
		return ErrEnded
	}
}

func (p *plain) renew(lease func() time.Duration) error {
	return p.call(func() error {
		if p.cause != "" && p.cause != Stopped {
			return nil
		}
		return p.extend(lease)
	})
}

func (p *plain) signal(s syscall.Signal) error {
	return p.call(func() error { return signalGroup(p.cmd, s) })
}

func (p *plain) stop(timeout time.Duration) {
	_ = p.call(func() error { p.end(Stopped, timeout); return nil })
}

func (p *plain) killNow() {
	_ = p.call(func() error {
		p.cause, p.stopAt = Killed, time.Now()
		p.tick()
		return nil
	})
}

func (p *plain) run(ctx context.Context, command []string) (int, error) {
	if p.over() {
		return 0, ErrEnded
	}
	beside, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer cancel()
		select {
		case <-p.exited:
		case <-beside.Done():
		}
	})
	defer waiting.Wait()
	defer cancel()
	cmd := exec.CommandContext(beside, command[0], command[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.config.Env, p.config.Dir, os.Stderr, os.Stderr
	setGroup(cmd)
	cmd.Cancel = func() error { killGroup(cmd); return nil }
	err := cmd.Run()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if cmd.ProcessState == nil {
		if p.over() {
			return 0, ErrEnded
		}
		return 0, &ExecError{command[0], err}
	}
	code, _ := codeAndSignal(cmd.ProcessState)
	return code, nil
}

// over reports whether the command has exited.
func (p *plain) over() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func codeAndSignal(state *os.ProcessState) (code int, signal syscall.Signal) {
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), s.Signal()
	}
	return state.ExitCode(), 0
}

func (p *plain) wait() Result {
	<-p.done
	r := Result{Cause: p.cause}
	r.Code, r.Signal = codeAndSignal(p.cmd.ProcessState)
	if r.Cause == "" {
		r.Cause = Exited
	}
	return r
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// process is a process of the example program.
type process struct {
	name   string
	cmd    *exec.Cmd
	meant  atomic.Bool   // its end is: we sent it a signal
	exited chan struct{} // closed by run when the process has been reaped and all that it printed is in the journal
	err    error         // how it ended; written before exited is closed
}

// start starts the example program in the given mode. The play fails if it ends without our doing. An earlier process
// of that name has to have been killed.
func (d *demo) start(name, mode string) error {
	if earlier := d.processes[name]; earlier != nil {
		<-earlier.exited
	}
	p := &process{name: name, exited: make(chan struct{})}
	p.cmd = exec.Command(d.program, mode, "-store", d.url, "-election", election, "-name", name)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = childAttributes()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	go p.run(d, stdout, started) // end waits for it
	if err := <-started; err != nil {
		return err
	}
	d.processes[name] = p
	return nil
}

// run starts the process, reads what it prints, and waits for its end. All of that happens on one thread, which lives
// as long as the process: the kernel takes the end of the thread that started a child for the end of its parent.
func (p *process) run(d *demo, stdout io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		e, err := parseEvent(lines.Text())
		if err != nil {
			d.fail(fmt.Errorf("%s printed what the demo can't read: %w", p.name, err))
			continue
		}
		d.journal.add(e)
	}
	p.err = p.cmd.Wait()
	if !p.meant.Load() {
		d.fail(fmt.Errorf("process %s ended by itself: %v", p.name, p.cmd.ProcessState))
	}
}

// signal sends a signal that is meant to end the process. It is no error if it has ended.
func (p *process) signal(s syscall.Signal) error {
	p.meant.Store(true)
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// awaitSuccess waits until the process has ended, which it has to do without an error.
func (p *process) awaitSuccess(ctx context.Context) error {
	ctx, cancel := patient(ctx, 0, "process %s to end", p.name)
	defer cancel()
	select {
	case <-p.exited:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.err != nil {
		return fmt.Errorf("process %s did not end in order: %w", p.name, p.err)
	}
	return nil
}

// end ends all processes and returns when none is left. Calling it again does nothing.
func (d *demo) end() {
	for _, p := range d.processes {
		_ = p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

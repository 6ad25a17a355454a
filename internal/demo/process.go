package demo

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// process is a candidate or the follower.
type process struct {
	name   string
	cmd    *exec.Cmd
	fate   string        // what the demo did to the process, if that still matters
	exited chan struct{} // closed by run when the process has been reaped
	err    error         // how it ended; written before exited is closed
}

// The fates of processes, as they are shown.
const (
	killed   = "was killed"
	frozen   = "is frozen"
	woken    = "is waking" // until it has said that its term has ended
	resigned = "is resigning"
	gone     = "has resigned and ended"
)

// start starts a process, instead of an earlier process of that name which has been killed.
func (s *scene) start(name string) {
	if s.err != nil {
		return
	}
	if earlier := s.processes[name]; earlier != nil {
		<-earlier.exited
	}
	text, err := json.Marshal(role{name, s.url})
	p := &process{name: name, cmd: exec.Command(s.program), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = s.in, os.Stderr // which gets nothing but why a process failed
	if err == nil {
		p.cmd.SysProcAttr, err = childAttributes()
	}
	if err == nil {
		started := make(chan error)
		go p.run(started, s.exits) // close waits for it
		err = <-started
	}
	if err == nil {
		s.processes[name] = p
	}
	s.err = err
}

// run starts the process and waits for its end, on one thread that lives as long as the process does: the kernel takes
// the end of the thread that started a child for the end of its parent.
func (p *process) run(started chan<- error, exits chan<- *process) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		exits <- p // which has room
	}
}

// signal sends a signal. It is no error if the process has ended: the scene is told of that.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

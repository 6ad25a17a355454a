package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/internal/lifeline"
)

// Run implements the subcommand.
func (c *lifelineCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	a.errs, a.end = newSteadyLog(a.errs)
	log := slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: level}))
	allowed, err := users(c.Allow)
	if err != nil {
		return err
	}
	signals := notifySignals()
	server, address, err := c.listen(allowed, log)
	if err != nil {
		return &failure{code: exitSoftware, err: fmt.Errorf("can't listen: %w", err), advice: "give --listen a path in a directory that this user may write to"}
	}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve() }()
	defer func() { <-served }()
	defer server.Close()
	if len(c.Program) == 0 {
		log.Info("listening", "path", address)
		managerOf(os.Getenv).tell("READY=1")
		return awaitEnd(signals)
	}
	a.warnOfClearPassword(os.Getenv("LEADERSHIP_STORE"))
	return c.runProgram(server, address, signals)
}

// listen makes the server. It keeps what it knows out of core dumps.
func (c *lifelineCmd) listen(allowed map[uint32]bool, log *slog.Logger) (*lifeline.Server, string, error) {
	lifeline.Harden()
	may := func(uid uint32) bool { return allowed[uid] }
	if c.Listen == "" {
		listener, address, err := lifeline.ListenAnywhere()
		if err != nil {
			return nil, "", err
		}
		return lifeline.NewServer(listener, may, log), address, nil
	}
	listener, err := lifeline.Listen(c.Listen, len(allowed) > 0)
	if err != nil {
		return nil, "", err
	}
	return lifeline.NewServer(listener, may, log), c.Listen, nil
}

// users returns the numbers of users.
func users(list []string) (map[uint32]bool, error) {
	known := map[uint32]bool{}
	for _, name := range list {
		id := name
		if u, err := user.Lookup(name); err == nil {
			id = u.Uid
		}
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, lifelineUsage(fmt.Sprintf("--allow=%q: there is no such user", name))
		}
		known[uint32(number)] = true
	}
	return known, nil
}

// awaitEnd waits for a signal that asks for the end.
func awaitEnd(signals <-chan os.Signal) error {
	for s := range signals {
		if number, _ := s.(syscall.Signal); number == syscall.SIGTERM || number == syscall.SIGINT {
			return toldToEnd(interrupted{number})
		}
	}
	return nil
}

// runProgram runs the program, and returns when it has ended and its sessions have.
func (c *lifelineCmd) runProgram(server *lifeline.Server, address string, signals <-chan os.Signal) error {
	cmd := exec.Command(c.Program[0], c.Program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(withoutClearPassword(os.Environ()), lifeline.ParentVariable+"="+address)
	terminal := guard.OwnsTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: hasTerminal(), Foreground: terminal} // Ctrl-C comes once
	takeBack := func() {
		if terminal {
			guard.TakeTerminal()
		}
	}
	if err := cmd.Start(); err != nil {
		takeBack()
		code := 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		return &failure{code: code, err: err}
	}
	ctx, cancel := context.WithCancel(context.Background())
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		passSignals(ctx, signals, cmd.Process)
	}()
	status := reapUntil(cmd.Process.Pid, terminal)
	takeBack()
	cancel()
	<-passed
	_ = cmd.Process.Release()
	waiting, stop := endedBy(syscall.SIGTERM, syscall.SIGINT)
	server.Settle(waiting)
	stop()
	if status.Signaled() {
		return &failure{code: exitSignal + int(status.Signal()), err: errors.New("")}
	}
	if code := status.ExitStatus(); code != 0 {
		return &failure{code: code, err: errors.New("")}
	}
	return nil
}

// passSignals passes signals on until ctx ends.
func passSignals(ctx context.Context, signals <-chan os.Signal, program *os.Process) {
	for {
		select {
		case s := <-signals:
			_ = program.Signal(s)
		case <-ctx.Done():
			return
		}
	}
}

// reapUntil reaps all children until the program has ended. As process 1 it adopts those whose parents have died. If
// the program has the terminal and Ctrl-Z stops the program, reapUntil continues it: no shell would do that.
func reapUntil(program int, terminal bool) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR || pid != program:
		case status.Stopped():
			if terminal && status.StopSignal() == syscall.SIGTSTP {
				_ = syscall.Kill(-pid, syscall.SIGCONT)
			}
		default:
			return status
		}
	}
}

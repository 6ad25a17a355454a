// Package guard runs a command that must not outlive a lease, even if the processes that watch over it are killed,
// stopped or frozen. It knows neither elections nor stores.
//
// Up to four processes take part, each the child of the one before:
//
//   - The supervisor is the calling process. It holds the lease, tells the guardian of each renewal, and reaps: the
//     supervisor is a subreaper, so it adopts processes whose parent has died. [Process.Wait] returns when wait4
//     reports ECHILD: nothing of the command is left. Only then may the caller give its ballot back.
//   - The guardian is the same binary, executed again. It ends the command before the lease ends. A timer in the kernel
//     (timer_create with CLOCK_BOOTTIME) sends SIGKILL to the guardian shortly before the lease ends, even if the
//     guardian is stopped or frozen.
//   - The init, the same binary again, is PID 1 of a PID namespace. It dies with the guardian (PR_SET_PDEATHSIG), and
//     the kernel then kills every process of the namespace: no code of ours has to run. It is missing in the mode
//     [Subreaper], where the guardian reaps and kills its descendants itself.
//   - The command has a process group of its own.
//
// With D the end of the lease, m1 = max(500 ms, TTL/10) and m2 = m1/2, the guardian sends TERM at D − m1 − StopTimeout,
// KILL at K = D − m1, and the kernel kills the guardian at T = D − m2. If TERM was sent because a renewal was missing,
// the command ends even if the renewal arrives later.
//
// Not covered are: a frozen cgroup v1, a CPU quota that stops the kernel from killing in time (hence the margins), a
// paused virtual machine, and work that the command hands to processes outside its tree. A fencing token helps against
// these. The mode Subreaper leaves more uncovered: see [Mode.Uncovered].
package guard

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Config says what to run and how. Command, TTL and Mode are required.
type Config struct {
	// Command is the program and its arguments. A program without a slash is looked up in PATH.
	Command []string
	// Env is the environment of the command. Nil means the environment of this process.
	Env []string
	// Dir is the working directory of the command. Empty means that of this process.
	Dir string
	// Files are the command's file descriptors from 3 on. The guardian closes its copies as soon as the command runs.
	// The caller closes its copies after Start.
	Files []*os.File
	// Keep are files that the guardian and the init hold open until they end, and the command does not get. A lock that
	// must last as long as the command is such a file. An unguarded command has no guardian, and gets them after Files.
	// The caller closes its copies after Start.
	Keep []*os.File

	// TTL is for how long one renewal extends the lease: the session's TTL less the grace of the store.
	TTL time.Duration
	// RenewEvery is the time between two renewals. Zero means TTL/3.
	RenewEvery time.Duration
	// StopTimeout is the time that the command has between TERM and KILL if the lease is about to end. At zero the command
	// gets both at once.
	StopTimeout time.Duration

	// Mode is what SelfTest has returned, or UnguardedMode().
	Mode Mode
	// Strict refuses every mode but Namespace.
	Strict bool
	// WaitAll lets the processes that the command leaves behind go on, and Wait waits for them. By default they are
	// killed when the command has exited.
	WaitAll bool
	// Logger is told what is unusual. Nil means that nothing is logged.
	Logger *slog.Logger
}

// Start starts the command. It returns when the command runs, or with an error when nothing of the command is left.
// lease returns the time until the lease ends. Start reads the clock before each call of lease, and calls lease
// repeatedly, so that a renewal during the start counts. An error of type *ExecError means that the command could not
// be executed. An error that matches ErrLate means that the lease has ended or is about to end.
//
// A process may run one Process at a time. While the Process runs, it reaps every child of the caller, so os/exec loses
// the exit statuses of the commands that it has started. Use [Process.Run] for other commands. Children from before
// Start are left alone, but their statuses are lost.
func Start(c Config, lease func() time.Duration) (*Process, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r, err := start(c, lease)
	if err != nil {
		return nil, err
	}
	return &Process{r}, nil
}

// Process is a command that runs. Start makes one. Its methods may be called from any number of goroutines.
type Process struct{ r running }

// running is what a mode does for a Process. The methods are those of Process.
type running interface {
	renew(lease func() time.Duration) error
	signal(syscall.Signal) error
	stop(timeout time.Duration)
	killNow()
	run(ctx context.Context, probe []string) (code int, err error)
	wait() Result
}

// ErrLate is returned if the lease ends too soon to start a command.
var ErrLate = errors.New("the lease ends too soon to start the command")

// ErrEnded is returned for a command that has ended.
var ErrEnded = errors.New("the command has ended")

// Renew tells the guardian that the lease has been renewed. It reads the clock and then calls lease, which returns the
// time until the lease ends. Renew does not wait for the guardian. If the guardian has already sent TERM because a
// renewal was missing, the guardian ignores this renewal, and Wait returns soon with the cause Deadline. An error means that the
// guardian could not be told.
func (p *Process) Renew(lease func() time.Duration) error { return p.r.renew(lease) }

// Signal sends a signal to the process group of the command. If the command has exited and WaitAll lets its other
// processes go on, these get the signal. Signal does not wait for the delivery.
func (p *Process) Signal(s syscall.Signal) error { return p.r.signal(s) }

// Stop ends the command: TERM and CONT now, KILL after the timeout or before the lease ends, whichever is earlier. So the
// timeout may be longer than the lease: renew the lease until the command has ended. Stop does not wait. A second call
// changes nothing.
func (p *Process) Stop(timeout time.Duration) { p.r.stop(timeout) }

// Kill ends the command at once, for example because the ballot is lost. It kills the guardian, and so works even if
// the guardian is stopped. Kill does not wait.
func (p *Process) Kill() { p.r.killNow() }

// Run runs a probe beside the command, for example to find out whether the command is ready. The probe has the same
// environment and directory, the null device as stdin, and stderr as stdout. The guard of the command covers the probe.
// Run returns when the probe has exited: the probe's exit code, or 128 plus the signal that killed the probe. If ctx is
// cancelled, or if the command is stopped or has ended, Run kills the probe and does not wait for its end. With WaitAll
// the probe may outlast the command.
func (p *Process) Run(ctx context.Context, probe []string) (code int, err error) {
	return p.r.run(ctx, probe)
}

// Wait returns when nothing of the command is left: neither the command, nor a descendant of the command, nor the
// guardian. Only then may the caller let another candidate lead.
func (p *Process) Wait() Result { return p.r.wait() }

// Result tells how the command ended.
type Result struct {
	// Code is the exit code of the command, or 128 + Signal.
	Code int
	// Signal is the signal that killed the command, or zero.
	Signal syscall.Signal
	// Cause is why the command ended.
	Cause Cause
}

// Cause is why a command ended.
type Cause string

const (
	// Exited: the command ended by itself, or by a signal that Signal has passed on.
	Exited Cause = "the command exited"
	// Stopped: Stop was called.
	Stopped Cause = "stop was requested"
	// Killed: Kill was called.
	Killed Cause = "kill was requested"
	// Deadline: the lease was not renewed in time.
	Deadline Cause = "the lease was not renewed in time"
	// GuardianDied: the guardian or the init was killed, or did not act in time and the supervisor has killed it.
	GuardianDied Cause = "the guardian died"

	supervisorDied Cause = "the supervisor died" // which is why no Result has it
)

// ExecError says that the command could not be executed.
type ExecError struct {
	Command string
	Err     error
}

func (e *ExecError) Error() string { return "run " + e.Command + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ExecError) Unwrap() error { return e.Err }

// Code returns the exit code that shells use: 127 if the command does not exist, 126 otherwise.
func (e *ExecError) Code() int {
	if errors.Is(e.Err, os.ErrNotExist) || errors.Is(e.Err, exec.ErrNotFound) {
		return 127
	}
	return 126
}

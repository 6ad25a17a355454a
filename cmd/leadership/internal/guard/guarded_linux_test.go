package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const long = time.Minute

func lasts(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// eachMode runs a test in each guarded mode that this process may use, and unguarded.
func eachMode(t *testing.T, test func(t *testing.T, m Mode)) {
	for _, m := range []Mode{namespaceMode(os.Getuid() != 0), subreaperMode(), UnguardedMode()} {
		t.Run(string(m.Kind), func(t *testing.T) {
			if m.Kind != Unguarded {
				if err := tried[m.Kind](); err != nil {
					skipWhatIsDenied(t, err.Error())
				}
			}
			test(t, m)
		})
	}
}

// tried are the results of the self-tests.
var tried = map[Kind]func() error{
	Namespace: sync.OnceValue(func() error {
		_, err := selfTest(context.Background(), namespaceMode(os.Getuid() != 0))
		return err
	}),
	Subreaper: sync.OnceValue(func() error {
		_, err := selfTest(context.Background(), subreaperMode())
		return err
	}),
}

func eachGuardedMode(t *testing.T, test func(t *testing.T, m Mode)) {
	eachMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Unguarded {
			test(t, m)
		}
	})
}

func shell(m Mode, script string) Config {
	return Config{Command: []string{"sh", "-c", script}, TTL: long, Mode: m, StopTimeout: 10 * time.Second}
}

// startShell starts a script whose descriptor 3 is a pipe, and returns the pipe's reader.
func startShell(t *testing.T, m Mode, script string, change ...func(*Config)) (*Process, *bufio.Reader) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	c := shell(m, script)
	c.Files = []*os.File{w}
	for _, f := range change {
		f(&c)
	}
	p, err := Start(c, lasts(long))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return p, bufio.NewReader(r)
}

func readLine(t *testing.T, r *bufio.Reader) string {
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

func TestExitStatus(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		for script, want := range map[string]Result{
			"exit 7":        {Code: 7, Cause: Exited},
			"kill -USR1 $$": {Code: 128 + int(syscall.SIGUSR1), Signal: syscall.SIGUSR1, Cause: Exited},
		} {
			p, _ := startShell(t, m, script)
			require.Equal(t, want, p.Wait(), script)
			require.ErrorIs(t, p.Renew(lasts(long)), ErrEnded)
			require.ErrorIs(t, p.Signal(syscall.SIGUSR1), ErrEnded)
			for range 20 { // what ends it may come first by chance
				_, err := p.Run(t.Context(), []string{"true"})
				require.ErrorIs(t, err, ErrEnded)
			}
		}
	})
}

func TestCommandThatCannotBeExecuted(t *testing.T) {
	directory := t.TempDir()
	noFormat := directory + "/no-format"
	require.NoError(t, os.WriteFile(noFormat, []byte{0}, 0o755))
	eachMode(t, func(t *testing.T, m Mode) {
		for command, code := range map[string]int{
			"surely-no-such-command": 127, directory + "/missing": 127, directory: 126, noFormat: 126,
		} {
			_, err := Start(Config{Command: []string{command}, TTL: long, Mode: m}, lasts(long))
			failed := new(ExecError)
			require.ErrorAs(t, err, &failed, command)
			require.Equal(t, code, failed.Code(), "%v", err)
			require.Contains(t, err.Error(), command)
		}
	})
}

// TestFailedStartNamesTheCommand checks that the error names the command, also if all processes have ended before Start
// reads why.
func TestFailedStartNamesTheCommand(t *testing.T) {
	for range 100 { // select chooses at random
		v := &supervisor{name: "x", started: make(chan error, 1), done: make(chan struct{})}
		v.handle(report{Failed: "not found", Errno: unix.ENOENT})
		close(v.done)
		require.EqualError(t, v.running(nil), "run x: no such file or directory")
	}
}

// TestAnyBytes checks that names of files and arguments need not be UTF-8.
func TestAnyBytes(t *testing.T) {
	command := t.TempDir() + "/caf\xe9"
	require.NoError(t, os.WriteFile(command, []byte("#!/bin/sh\necho; exec sleep 1000"), 0o755))
	eachMode(t, func(t *testing.T, m Mode) {
		p, err := Start(Config{Command: []string{command}, TTL: long, Mode: m}, lasts(long))
		require.NoError(t, err)
		code, err := p.Run(t.Context(), []string{"sh", "-c", "test -e '" + command + "'"})
		require.NoError(t, err)
		require.Zero(t, code)
		code, err = p.Run(t.Context(), []string{command + "/../caf\xe9"})
		require.Error(t, err, code)
		p.Kill()
		p.Wait()
	})
}

func TestSignalsReachTheGroup(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		p, r := startShell(t, m, `
			trap : USR2
			sh -c 'trap "echo child >&3; exit" USR2; echo >&3; while :; do sleep 0.01; done' &
			wait; sleep 20`)
		readLine(t, r)
		require.NoError(t, p.Signal(syscall.SIGUSR2))
		require.Equal(t, "child", readLine(t, r))
		p.Kill()
		p.Wait()
	})
}

// stoppedIsLogged is a logger, and a function that waits until it is told that the command is stopped.
func stoppedIsLogged(t *testing.T) (*slog.Logger, func()) {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = r.Close() })
	lines := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return slog.New(slog.NewTextHandler(w, nil)), func() {
		for {
			select {
			case line := <-lines:
				if strings.Contains(line, "the command is stopped by SIGSTOP") {
					return
				}
			case <-time.After(long):
				require.FailNow(t, "nothing tells that the command is stopped")
			}
		}
	}
}

// TestStoppedCommand checks that a command which has stopped itself is reported, and that signals which ask for its end
// reach it.
func TestStoppedCommand(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			log, stopped := stoppedIsLogged(t)
			p, _ := startShell(t, m, `trap 'exit 3' TERM INT; kill -STOP $$; while :; do sleep 0.01; done`, func(c *Config) { c.Logger = log })
			stopped()
			require.NoError(t, p.Signal(s))
			require.Equal(t, Result{Code: 3, Cause: Exited}, p.Wait())
		}
	})
	p, _ := startShell(t, UnguardedMode(), `trap 'exit 3' TERM; kill -STOP $$; while :; do sleep 0.01; done`)
	stat := fmt.Sprintf("/proc/%d/stat", p.r.(*plain).cmd.Process.Pid)
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(stat)
		return strings.Contains(string(text), ") T ")
	}, long, time.Millisecond)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Equal(t, Result{Code: 3, Cause: Exited}, p.Wait())
}

// TestStop checks that Stop sends TERM, also to a stopped command, and KILL after a time of its own:
// StopTimeout is that of the lease's end.
func TestStop(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		p, r := startShell(t, m, `trap 'sleep 0.05; exit 3' TERM; echo >&3; kill -STOP $$; while :; do sleep 0.01; done`,
			func(c *Config) { c.StopTimeout = 0 })
		readLine(t, r)
		p.Stop(long)
		require.Equal(t, Result{Code: 3, Cause: Stopped}, p.Wait())

		p, r = startShell(t, m, `trap '' TERM; echo >&3; exec sleep 1000`)
		readLine(t, r)
		p.Stop(0)
		require.Equal(t, Result{Code: 137, Signal: syscall.SIGKILL, Cause: Stopped}, p.Wait())
	})
}

func TestKill(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		p, r := startShell(t, m, `trap 'echo term >&3' TERM; echo >&3; while :; do sleep 0.01; done`)
		readLine(t, r)
		p.Kill()
		require.Equal(t, Result{Code: 137, Signal: syscall.SIGKILL, Cause: Killed}, p.Wait())
		_, err := r.ReadByte()
		require.Error(t, err, "the command got TERM")
	})
}

// TestWhatTheCommandLeaves checks that the processes which the command leaves are killed when it exits or, with
// WaitAll, waited for.
func TestWhatTheCommandLeaves(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		p, r := startShell(t, m, `sh -c 'trap "" TERM; exec sleep 1000' & exit 4`)
		begun := now()
		require.Equal(t, 4, p.Wait().Code)
		require.Less(t, now().sub(begun), long/2, "it was killed with the lease, and not before")
		_, err := r.ReadByte()
		require.Error(t, err)
		if m.Kind == Unguarded {
			return
		}
		for term, end := range map[string]string{":": "exit 5", "exit 5": "while :; do sleep 0.01; done"} {
			p, r = startShell(t, m, `trap '`+term+`' TERM
				setsid sh -c 'trap "echo late >&3; exit" TERM; echo >&3; while :; do sleep 0.01; done' &
				`+end, func(c *Config) { c.WaitAll = true })
			readLine(t, r)
			p.Stop(10 * time.Second) // the processes that are left get TERM, also if the command exits only now
			require.Equal(t, "late", readLine(t, r))
			require.Equal(t, Result{Code: 5, Cause: Stopped}, p.Wait())
		}
	})
}

// TestWhatEndsTheRest checks that with WaitAll the cause is that of the end of the processes which the command has
// left.
func TestWhatEndsTheRest(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		for cause, end := range map[Cause]func(v *supervisor){
			Exited:       func(v *supervisor) { _ = v.signal(unix.SIGUSR1) },
			Stopped:      func(v *supervisor) { v.stop(10 * time.Second) },
			Killed:       (*supervisor).killNow,
			GuardianDied: func(v *supervisor) { _ = v.call(func() error { return unix.Kill(v.guardian, unix.SIGKILL) }) },
		} {
			t.Run(string(cause), func(t *testing.T) {
				require.Equal(t, Result{Cause: cause}, endTheRest(t, m, long, lasts(long), end))
			})
		}
	})
}

// TestDeadlineEndsTheRest is TestWhatEndsTheRest for the end of the lease, which takes seconds.
func TestDeadlineEndsTheRest(t *testing.T) {
	t.Parallel()
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		apart(t, func(t *testing.T) {
			killed := lasts(4 * time.Second) // after 3 s
			require.Equal(t, Result{Cause: Deadline}, endTheRest(t, m, 10*time.Second, killed, func(*supervisor) {}))
		})
	})
}

// endTheRest starts a command that leaves a process, calls end when the command has exited, and returns how the process
// ended.
func endTheRest(t *testing.T, m Mode, ttl time.Duration, lease func() time.Duration, end func(v *supervisor)) Result {
	c := shell(m, `setsid sleep 1000 & exit 0`)
	c.TTL, c.StopTimeout, c.WaitAll = ttl, time.Second, true
	p, err := Start(c, lease)
	require.NoError(t, err)
	v := p.r.(*supervisor)
	for exited := false; !exited; time.Sleep(time.Millisecond) {
		require.NoError(t, v.call(func() error { exited = v.exited; return nil }))
	}
	end(v)
	return p.Wait()
}

// TestRun checks that another command runs beside the first, and ends with it.
func TestRun(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		p, _ := startShell(t, m, "exec sleep 1000")
		code, err := p.Run(t.Context(), []string{"sh", "-c", "exit 9"})
		require.NoError(t, err)
		require.Equal(t, 9, code)
		failed := new(ExecError)
		_, err = p.Run(t.Context(), []string{"surely-no-such-command"})
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 127, failed.Code())

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = p.Run(ctx, []string{"sleep", "1000"})
		require.ErrorIs(t, err, context.Canceled)

		ended := make(chan int)
		go func() {
			code, _ := p.Run(t.Context(), []string{"sleep", "1000"})
			ended <- code
		}()
		p.Stop(10 * time.Second)
		require.Equal(t, Stopped, p.Wait().Cause)
		<-ended
	})
}

// TestOtherChildren checks that a child from before Start goes on, and that Wait does not wait for it.
func TestOtherChildren(t *testing.T) {
	other := exec.Command("sleep", "1000")
	require.NoError(t, other.Start())
	eachMode(t, func(t *testing.T, m Mode) {
		p, _ := startShell(t, m, "sleep 1000 & exit 6")
		require.Equal(t, 6, p.Wait().Code)
		require.NoError(t, other.Process.Signal(unix.Signal(0)))
	})
	require.NoError(t, other.Process.Kill())
	_ = other.Wait()
}

func TestOneProcessAtATime(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		p, _ := startShell(t, m, "exec sleep 1000")
		_, err := Start(shell(m, ":"), lasts(long))
		require.ErrorContains(t, err, "another command runs")
		p.Kill()
		p.Wait()
		p, _ = startShell(t, m, ":")
		require.Zero(t, p.Wait().Code)
	})
}

// TestLeaseThatHasEnded checks that Start starts nothing if the lease has ended.
func TestLeaseThatHasEnded(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		for _, left := range []time.Duration{0, 15 * time.Second} {
			_, err := Start(shell(m, "exit 1"), lasts(left)) // m1 is 6 s, StopTimeout 10 s
			require.Error(t, err)
			require.False(t, errors.As(err, new(*ExecError)))
		}
	})
}

// TestKeep checks that a file to keep is open until the command and its descendants have ended, and that the command
// does not have it.
func TestKeep(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		ready, tell, err := os.Pipe()
		require.NoError(t, err)
		defer ready.Close()
		c := shell(m, "(echo kept >&4) 2>/dev/null; echo >&3; exec sleep 60")
		c.Files, c.Keep = []*os.File{tell}, []*os.File{w}
		p, err := Start(c, lasts(long))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, tell.Close())
		_, err = ready.Read(make([]byte, 1))
		require.NoError(t, err)

		closed := make(chan string, 1)
		go func() {
			var buffer [16]byte
			n, _ := r.Read(buffer[:])
			closed <- string(buffer[:n])
		}()
		select {
		case wrote := <-closed:
			require.Fail(t, "it is not kept", "%q", wrote)
		case <-time.After(50 * time.Millisecond):
		}
		p.Kill()
		p.Wait()
		require.Empty(t, <-closed)
	})
}

// TestKeepUnguarded checks that an unguarded command itself keeps the file, after its own, when this process is killed.
func TestKeepUnguarded(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	ready, tell, err := os.Pipe()
	require.NoError(t, err)
	defer ready.Close()
	c := shell(UnguardedMode(), "echo own >&3; echo kept >&4; exec sleep 60")
	c.Files, c.Keep = []*os.File{tell}, []*os.File{w}
	p, err := Start(c, lasts(long))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, tell.Close())
	text, err := io.ReadAll(io.LimitReader(ready, 4))
	require.NoError(t, err)
	require.Equal(t, "own\n", string(text))
	text, err = io.ReadAll(io.LimitReader(r, 5))
	require.NoError(t, err)
	require.Equal(t, "kept\n", string(text))
	p.Kill()
	p.Wait()
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

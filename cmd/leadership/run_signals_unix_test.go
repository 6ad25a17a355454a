//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/stretchr/testify/require"
)

// A signal that comes while the program prepares ends it as one that comes later does.
func TestSignalWhilePreparing(t *testing.T) {
	t.Cleanup(func() { selfTest = guard.SelfTest })
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGTERM} {
		selfTest = func(ctx context.Context) (guard.Mode, error) {
			require.NoError(t, syscall.Kill(os.Getpid(), s))
			select {
			case <-ctx.Done():
				return guard.Mode{}, ctx.Err()
			case <-time.After(time.Minute):
				return guard.Mode{}, errors.New("the signal does not end it")
			}
		}
		a := &app{errs: io.Discard, end: func() {}}
		c := &runCmd{Command: []string{"true"}, ReadyTimeout: time.Minute, LogLevel: "info"}
		c.Store, c.Election = "file:///nonesuch?ttl=30s", "job"
		err := c.Run(a)
		a.end()
		code, _ := explain(err)
		require.Equal(t, 128+int(s), code, "%v", err)
	}
}

// A command without a PID namespace says why in the log.
func TestModeHasAReason(t *testing.T) {
	t.Cleanup(func() { selfTest = guard.SelfTest })
	selfTest = func(context.Context) (guard.Mode, error) {
		return guard.Mode{Kind: guard.Subreaper, Reasons: []string{"a PID namespace: operation not permitted"}, Uncovered: []string{"a fault"}}, nil
	}
	var log screen
	c := &runCmd{Command: []string{"true"}}
	c.Store = "file:///nonesuch?ttl=30s"
	_, err := c.guard(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Contains(t, log.String(), `level=WARN msg="the command runs without a PID namespace: two commands may run at once after some faults" mode=subreaper because="a PID namespace: operation not permitted" faults="a fault"`)
}

// What is wrong with the times or the command is found before the self-test.
func TestSelfTestComesLast(t *testing.T) {
	t.Cleanup(func() { selfTest = guard.SelfTest })
	selfTest = func(context.Context) (guard.Mode, error) { return guard.Mode{}, errors.New("a self-test") }
	for _, test := range []struct {
		store, command string
		code           int
	}{
		{"file:///nonesuch?ttl=1s", "true", exitUsage},
		{"file:///nonesuch?ttl=30s", "no such command", 127},
		{"file:///nonesuch?ttl=30s", "true", exitFailed}, // it is made
	} {
		a := &app{errs: io.Discard, end: func() {}}
		c := &runCmd{Command: []string{test.command}, ReadyTimeout: time.Minute, LogLevel: "info"}
		c.Store, c.Election = test.store, "job"
		err := c.Run(a)
		a.end()
		code, _ := explain(err)
		require.Equal(t, test.code, code, "%v", err)
	}
}

// Before the runner leads, some signals end it. Its ballot is gone when it returns.
func TestSignalBeforeLeading(t *testing.T) {
	for _, test := range []struct {
		signal   syscall.Signal
		terminal bool
		ends     bool
	}{
		{syscall.SIGTERM, false, true}, {syscall.SIGINT, false, true}, {syscall.SIGQUIT, false, true},
		{syscall.SIGHUP, true, true}, {syscall.SIGHUP, false, false}, {syscall.SIGUSR1, true, false},
	} {
		virtual(t, func(w *world) {
			rival := w.rival()
			w.runner.terminal, w.runner.again.enabled = test.terminal, true
			over := w.run()
			w.at(time.Minute)
			w.signal(test.signal)
			if !test.ends {
				require.Empty(w, over)
				require.NoError(w, rival.Withdraw(w.Context()))
				w.program(1).exit(guard.Result{})
				require.Equal(w, outcome{kind: exited}, <-over)
				return
			}
			require.Equal(w, outcome{kind: final, code: 128 + int(test.signal)}, <-over)
			require.Equal(w, time.Minute, w.now())
			require.Equal(w, []string{"rival"}, w.ballots())
		})
	}
}

// If the store does not answer, the runner ends after withdrawal, and at once after a second signal.
func TestSignalWithoutTheStore(t *testing.T) {
	for _, second := range []bool{false, true} {
		virtual(t, func(w *world) {
			w.rival()
			over := w.run()
			w.store.Faults().Cut()
			w.signal(syscall.SIGTERM)
			require.Empty(w, over)
			if second {
				w.at(time.Second)
				w.signal(syscall.SIGINT)
				require.Len(w, over, 1)
			} else {
				w.at(withdrawal)
			}
			require.Equal(w, outcome{kind: final, code: 143}, <-over)
			w.at(time.Hour) // until the work in the background is over
		})
	}
}

// The command gets the signals while it runs. The second one that asks for its end kills it.
func TestSignalWhileLeading(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again.enabled = true
		over := w.run()
		c := w.program(1)
		for _, s := range []syscall.Signal{
			syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT,
			syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT,
		} {
			w.signal(s)
		}
		require.Equal(w, []string{
			"hangup", "user defined signal 1", "user defined signal 2", "window changed", "quit", "terminated", "hangup", "kill",
		}, c.told())
		require.Equal(w, []string{"a"}, w.ballots())
		c.exit(guard.Result{Code: 137})
		require.Equal(w, outcome{kind: exited, code: 137}, <-over, "it does not stand again")
		require.Empty(w, w.ballots())
	})
}

// A signal that comes after the command has ended, while the ballot is given back, does not change the exit code.
func TestSignalAfterTheCommand(t *testing.T) {
	virtual(t, func(w *world) {
		over := w.run()
		w.store.Faults().Cut()
		w.program(1).exit(guard.Result{Code: 7})
		w.signal(syscall.SIGTERM)
		w.signal(syscall.SIGTERM)
		require.Equal(w, outcome{kind: exited, code: 7}, <-over)
		w.at(time.Hour)
	})
}

// A signal ends the time between two turns.
func TestSignalBetweenTurns(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again.enabled = true
		over := w.run()
		w.program(1).exit(guard.Result{Code: 7})
		require.Empty(w, over)
		w.signal(syscall.SIGTERM)
		require.Equal(w, outcome{kind: final, code: 143}, <-over)
		require.Zero(w, w.now())
	})
}

// Signals that come while the command is being started are passed on when it runs.
func TestSignalWhileStarting(t *testing.T) {
	virtual(t, func(w *world) {
		w.slow = time.Minute
		over := w.run()
		w.signal(syscall.SIGHUP)
		w.signal(syscall.SIGTERM)
		w.signal(syscall.SIGTERM)
		w.at(time.Second)
		c := w.program(1)
		w.at(time.Minute)
		require.Equal(w, []string{"hangup", "terminated", "kill"}, c.told())
		c.exit(guard.Result{Code: 137})
		require.Equal(w, outcome{kind: exited, code: 137}, <-over)
	})
}

// If the command can't be started, a signal that came meanwhile and asks for the end ends the runner.
func TestSignalWhileNotStarting(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again.enabled, w.slow, w.refuse = true, time.Second, errors.New("no fork")
		over := w.run()
		w.signal(syscall.SIGTERM)
		w.at(time.Second)
		require.Equal(w, outcome{kind: final, code: 143}, <-over)
	})
}

// A signal that comes after the term has begun and before the command is started: no command is started, since the runner
// would not wait for its end.
func TestSignalAsTheTermBegins(t *testing.T) {
	virtual(t, func(w *world) {
		candidate, err := leadership.NewCandidate(w.runner.store, "job", "a", nil)
		require.NoError(w, err)
		term, err := candidate.Campaign(w.Context())
		require.NoError(w, err)
		over := make(chan error, 1)
		w.runner.begin(func(cause error) { over <- cause })
		require.Equal(w, interrupted{syscall.SIGTERM}, w.runner.onSignal(syscall.SIGTERM))
		require.Equal(w, interrupted{syscall.SIGTERM}, <-over)
		led := make(chan outcome, 1)
		go func() { led <- w.runner.lead(term) }()
		synctest.Wait()
		for _, c := range w.commands {
			c.results <- guard.Result{Code: 143} // so that the test ends
		}
		require.Equal(w, outcome{kind: final, code: 143}, <-led)
		require.Zero(w, w.started())
		require.NoError(w, term.Withdraw(w.Context()))
	})
}

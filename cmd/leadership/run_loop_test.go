package main

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/stretchr/testify/require"
)

// The command runs while the candidate leads. Followers know it at once, each renewal moves its deadline, and its exit
// code is the program's.
func TestRunWhileLeading(t *testing.T) {
	virtual(t, func(w *world) {
		over := w.run()
		c := w.program(1)
		require.Equal(w, "a", w.leader())
		require.Equal(w, []string{"A=1", fmt.Sprint("LEADERSHIP_TOKEN=", w.token())}, c.env)
		ends, moves := c.lease()
		require.Equal(w, w.began.Add(testLease), ends)
		require.Zero(w, moves)

		w.at(time.Minute)
		ends, moves = c.lease()
		require.Equal(w, w.began.Add(time.Minute+testLease), ends)
		require.Equal(w, 20, moves, "one each TTL/4")
		require.Empty(w, c.told())

		c.exit(guard.Result{Code: 7})
		require.Equal(w, outcome{kind: exited, code: 7}, <-over)
		require.Empty(w, w.ballots())
	})
}

// The command starts when the ballot is first.
func TestRunWaits(t *testing.T) {
	virtual(t, func(w *world) {
		rival := w.rival()
		over := w.run()
		w.at(time.Hour)
		require.Zero(w, w.started())
		require.NoError(w, rival.Withdraw(w.Context()))
		w.program(1).exit(guard.Result{})
		require.Equal(w, outcome{kind: exited}, <-over)
	})
}

// The ballot is given back when the command has gone, and not before, also if an operator asks for the resignation.
func TestRunKeepsTheBallotUntilTheCommandHasGone(t *testing.T) {
	virtual(t, func(w *world) {
		over := w.run()
		c := w.program(1)
		rival := w.rival()
		require.NoError(w, w.observer.RequestResignation(w.Context(), "job", w.token()))
		require.Equal(w, []string{"stop in 30s"}, c.told())
		w.at(time.Hour)
		require.Equal(w, []string{"a", "rival"}, w.ballots())
		c.exit(guard.Result{Code: 143})
		require.NoError(w, rival.Wait(w.Context()))
		o := <-over
		require.Equal(w, [2]int{int(lost), exitLost}, [2]int{int(o.kind), o.code})
		require.ErrorIs(w, o.err, leadership.ErrResigned)
	})
}

// A command that is killed since it did not stop in time is in the log, with the time.
func TestRunLogsAKill(t *testing.T) {
	for _, test := range []struct {
		result guard.Result
		asked  bool
		want   string
	}{
		{guard.Result{Code: 137, Signal: syscall.SIGKILL, Cause: guard.Stopped}, true, "it had not stopped in time\" after=30s"},
		{guard.Result{Code: 143, Signal: syscall.SIGTERM, Cause: guard.Stopped}, true, ""},
		{guard.Result{Code: 137, Signal: syscall.SIGKILL, Cause: guard.Deadline}, false, "within --stop-timeout"},
		{guard.Result{Code: 137, Signal: syscall.SIGKILL, Cause: guard.Exited}, false, ""},
	} {
		virtual(t, func(w *world) {
			var log screen
			w.runner.log = slog.New(slog.NewTextHandler(&log, nil))
			over := w.run()
			c := w.program(1)
			if test.asked {
				require.NoError(w, w.observer.RequestResignation(w.Context(), "job", w.token()))
			}
			w.at(30 * time.Second)
			c.exit(test.result)
			<-over
			if test.want == "" {
				require.NotContains(w, log.String(), "killed")
				return
			}
			require.Contains(w, log.String(), test.want)
		})
	}
}

// If the term is lost, the command is killed at once, and the runner waits for its end.
func TestRunKillsWhatHasLost(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"the lease has run out":  func(w *world) { w.store.Faults().Cut(); w.at(testLease) },
		"the ballot was removed": func(w *world) { w.service.Delete("job", w.token()); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				over := w.run()
				c := w.program(1)
				lose(w)
				require.Equal(w, []string{"kill"}, c.told())
				w.store.Faults().Heal()
				w.at(time.Minute)
				require.Empty(w, over)
				c.exit(guard.Result{Code: 137})
				o := <-over
				require.Equal(w, [2]int{int(lost), exitLost}, [2]int{int(o.kind), o.code})
				require.ErrorIs(w, o.err, leadership.ErrLost)
			})
		})
	}
}

// The exit code says that leadership was lost, also if the killed command has gone before the term has ended.
func TestRunKilledBeforeTheTermEnds(t *testing.T) {
	for range 20 { // select chooses at random
		virtual(t, func(w *world) {
			over := w.run()
			c := w.program(1)
			c.kill = func() { c.results <- guard.Result{Code: 137, Cause: guard.Killed} }
			w.service.Delete("job", w.token())
			o := <-over
			require.Equal(w, [2]int{int(lost), exitLost}, [2]int{int(o.kind), o.code})
			require.ErrorIs(w, o.err, leadership.ErrLost)
		})
	}
}

// The guard stops a command whose lease is about to end. The term ends with it, also if it could go on.
func TestRunEndsATermWhoseCommandWasStopped(t *testing.T) {
	virtual(t, func(w *world) {
		over := w.run()
		w.program(1).exit(guard.Result{Code: 143, Cause: guard.Deadline})
		o := <-over
		require.Equal(w, [2]int{int(lost), exitLost}, [2]int{int(o.kind), o.code})
		require.ErrorIs(w, o.err, leadership.ErrLost)
		require.Empty(w, w.ballots())
	})
}

// With --linger, the leadership is kept after a command that has succeeded, and the exit code is the command's, whatever ends
// that time.
func TestRunLinger(t *testing.T) {
	for name, test := range map[string]struct {
		end func(w *world)
		at  time.Duration
	}{
		"the time":             {func(*world) {}, time.Minute},
		"SIGTERM":              {func(w *world) { w.signal(syscall.SIGTERM) }, 30 * time.Second},
		"an operator":          {func(w *world) { require.NoError(w, w.observer.RequestResignation(w.Context(), "job", w.token())) }, 30 * time.Second},
		"the ballot's removal": {func(w *world) { w.service.Delete("job", w.token()) }, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.runner.linger, w.runner.again.enabled = time.Minute, true
				over := w.run()
				rival := w.rival()
				w.program(1).exit(guard.Result{})
				w.at(30*time.Second - 1)
				require.Equal(w, "a", w.leader())
				require.Empty(w, over)
				w.at(30 * time.Second)
				test.end(w)
				require.NoError(w, rival.Wait(w.Context()))
				require.Equal(w, test.at, w.now())
				require.Equal(w, outcome{kind: exited}, <-over)
				require.Equal(w, 1, w.started())
			})
		})
	}
}

// The leadership is not kept after a command that has failed, or that a signal has ended.
func TestRunLingersForSuccessAlone(t *testing.T) {
	for name, test := range map[string]struct {
		signal bool
		result guard.Result
	}{
		"it failed":                    {false, guard.Result{Code: 1}},
		"it was asked to end, and did": {true, guard.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.runner.linger = time.Minute
				over := w.run()
				c := w.program(1)
				if test.signal {
					w.signal(syscall.SIGTERM)
				}
				c.exit(test.result)
				require.Equal(w, outcome{kind: exited, code: test.result.Code}, <-over)
				require.Zero(w, w.now())
			})
		})
	}
}

// A runner that gives up gives its ballot back. If it has led once, it waits for ever.
func TestRunPatience(t *testing.T) {
	virtual(t, func(w *world) {
		rival := w.rival()
		w.runner.wait = 30 * time.Second
		over := w.run()
		w.at(30 * time.Second)
		require.Equal(w, outcome{final, exitNeverLed, errNeverLed}, <-over)
		require.Equal(w, []string{"rival"}, w.ballots())
		require.NoError(w, rival.Withdraw(w.Context()))
		require.Zero(w, w.started())
	})
	virtual(t, func(w *world) {
		w.runner.wait = 30 * time.Second
		w.runner.again.enabled = true
		over := w.run()
		c := w.program(1)
		w.at(time.Minute)
		require.Empty(w, c.told())
		c.exit(guard.Result{Code: 1})
		w.rival() // stands before the runner does
		w.at(time.Hour)
		require.Equal(w, []string{"rival", "a"}, w.ballots())
		require.Empty(w, over)
		w.signal(syscall.SIGTERM)
		<-over
	})
}

// The runner ends when its ballot is gone, or after withdrawal if the store has to remove it in the background.
func TestRunLeavesInTime(t *testing.T) {
	virtual(t, func(w *world) {
		w.rival()
		w.runner.wait = time.Minute
		over := w.run()
		w.at(59 * time.Second)
		w.store.Faults().Cut()
		w.at(time.Minute)
		require.Empty(w, over)
		w.at(time.Minute + withdrawal)
		require.Equal(w, outcome{final, exitNeverLed, errNeverLed}, <-over)
		w.store.Faults().Heal()
		w.at(time.Hour) // until the work in the background is over
		require.Equal(w, []string{"rival"}, w.ballots())
	})
}

// A closed store and an invalid name of the election end the runner.
func TestRunBroken(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.again.enabled = true
		require.NoError(w, w.store.Close())
		o := <-w.run()
		require.Equal(w, [2]int{int(final), exitFailed}, [2]int{int(o.kind), o.code})
		require.ErrorIs(w, o.err, leadership.ErrClosed)
	})
	virtual(t, func(w *world) {
		w.runner.election = ""
		require.Equal(w, exitUsage, (<-w.run()).code)
	})
}

// If the command could not be started, the exit code says why.
func TestRunNotStarted(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind kind
		code int
	}{
		{&guard.ExecError{Command: "x", Err: syscall.ENOENT}, failed, 127},
		{&guard.ExecError{Command: "x", Err: syscall.EACCES}, failed, 126},
		{errors.New("no fork"), failed, 125},
	} {
		virtual(t, func(w *world) {
			w.refuseWith(test.err)
			o := <-w.run()
			require.Equal(w, [2]int{int(test.kind), test.code}, [2]int{int(o.kind), o.code})
			require.ErrorIs(w, o.err, test.err)
			require.Empty(w, w.ballots())
		})
	}
}

// A runner whose lease ends too soon to start the command, or whose term ends before that, stands again until --wait is
// over.
func TestRunStandsAgainUntilTheCommandIsStarted(t *testing.T) {
	late := fmt.Errorf("%w", guard.ErrLate)
	virtual(t, func(w *world) {
		w.refuseWith(late)
		over := w.run()
		w.at(10 * time.Minute)
		require.Empty(w, over)
		w.refuseWith(nil)
		w.at(11 * time.Minute)
		w.program(1).exit(guard.Result{Code: 7})
		require.Equal(w, outcome{kind: exited, code: 7}, <-over)
	})
	virtual(t, func(w *world) { // it is waiting to stand again as its patience ends
		w.refuseWith(late)
		w.runner.wait = 30 * time.Second
		over := w.run()
		w.at(30*time.Second - 1)
		require.Empty(w, over)
		w.at(30 * time.Second)
		o := <-over
		require.Equal(w, [2]int{int(final), exitUnavailable}, [2]int{int(o.kind), o.code})
		require.ErrorIs(w, o.err, guard.ErrLate)
		require.Empty(w, w.ballots())
	})
	for name, refusal := range map[string]error{"started": nil, "late": late, "no such command": &guard.ExecError{Command: "x", Err: syscall.ENOENT}} {
		t.Run(name, func(t *testing.T) { // as its patience ends
			virtual(t, func(w *world) {
				w.slow, w.refuse, w.runner.wait, w.runner.again.enabled = 2*time.Second, refusal, time.Second, true
				over := w.run()
				w.at(time.Second)
				require.Empty(w, over)
				w.at(2 * time.Second)
				if name == "late" {
					o := <-over
					require.Equal(w, exitUnavailable, o.code)
					require.ErrorIs(w, o.err, guard.ErrLate)
					return
				}
				w.at(time.Minute)
				require.Empty(w, over)
				if name == "started" {
					require.Empty(w, w.program(1).told())
				}
			})
		})
	}
	virtual(t, func(w *world) {
		w.refuseWith(late)
		over := w.run()
		w.at(time.Second / 2)
		w.signal(syscall.SIGTERM)
		require.Equal(w, outcome{final, exitSignal + 15, nil}, <-over)
	})
	virtual(t, func(w *world) { // the signal comes while the ballot is given back
		w.refuseWith(late)
		w.starts = func() { w.store.Faults().Cut() }
		over := w.run()
		require.Empty(w, over)
		w.signal(syscall.SIGTERM)
		w.store.Faults().Heal()
		require.Equal(w, outcome{final, exitSignal + 15, nil}, <-over)
	})
}

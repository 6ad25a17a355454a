package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/stretchr/testify/require"
)

// A command survives an outage of the length that docs/command.md states, also if the outage begins just before a
// renewal: the renewal comes before SIGTERM would.
func TestRunSurvivesAnOutage(t *testing.T) {
	for _, silence := range map[string]func(w *world){
		"nothing passes":   func(w *world) { w.store.Faults().Cut() },
		"answers are lost": func(w *world) { w.store.Faults().LoseReplies() },
	} {
		virtual(t, func(w *world) {
			config := times(testTTL, testTTL-testLease)
			most := config.MaxStopTimeout()
			stop := defaultStopTimeout(most)
			over := w.run()
			c := w.program(1)
			w.at(time.Minute - 1)
			ends, moves := c.lease()
			silence(w)
			w.at(time.Minute - 1 + most - stop)
			_, during := c.lease()
			require.Equal(w, moves, during)
			w.store.Faults().Heal()
			time.Sleep(time.Until(ends.Add(most + config.RenewEvery - config.TTL - stop))) // SIGTERM
			synctest.Wait()
			_, after := c.lease()
			require.Greater(w, after, moves)
			require.Empty(w, c.told())
			c.exit(guard.Result{})
			require.Equal(w, outcome{kind: exited}, <-over)
		})
	}
}

// A command is not started when the lease is about to end. It is started after a renewal.
func TestRunWaitsForAFreshLease(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		virtual(t, func(w *world) {
			w.runner.least = 6 * time.Second
			rival := w.rival()
			over := w.run()
			w.at(time.Minute) // the last renewal
			w.at(time.Minute + 2500*time.Millisecond)
			require.NoError(w, rival.Withdraw(w.Context()))
			synctest.Wait()
			require.Zero(w, w.started())
			if !renewed {
				w.store.Faults().Cut()
				w.at(time.Minute + testLease)
				require.Equal(w, "a", w.ballots()[0])
				w.store.Faults().Heal()
				synctest.Wait()
				require.Zero(w, w.started())
				w.at(2 * time.Minute) // stands again
			} else {
				w.at(time.Minute + 3*time.Second)
			}
			w.program(1).exit(guard.Result{})
			require.Equal(w, outcome{kind: exited}, <-over)
		})
	}
}

// If the term ends before the command runs, that is no failure of the command, whatever error the start returns.
func TestRunTermEndsWhileStarting(t *testing.T) {
	for reason, end := range map[error]func(w *world){
		leadership.ErrResigned: func(w *world) { require.NoError(w, w.observer.RequestResignation(w.Context(), "job", w.token())) },
		leadership.ErrLost:     func(w *world) { w.service.Delete("job", w.token()) },
	} {
		virtual(t, func(w *world) {
			var log screen
			w.runner.log = slog.New(slog.NewTextHandler(&log, nil))
			w.slow, w.refuse = time.Second, errors.New("no fork")
			over := w.run()
			end(w)
			w.refuseWith(nil)
			w.at(time.Second)
			require.Zero(w, w.started())
			w.at(3 * time.Second) // it stood again after a second, and starting takes one
			require.Empty(w, over)
			w.program(1).exit(guard.Result{})
			require.Equal(w, outcome{kind: exited}, <-over)
			require.Contains(w, log.String(), reason.Error())
		})
	}
}

// If the term ends between the win and the start, the command is not started.
func TestRunTermEndsBeforeTheStart(t *testing.T) {
	virtual(t, func(w *world) {
		candidate, err := leadership.NewCandidate(w.runner.store, "job", "a", nil)
		require.NoError(w, err)
		term, err := candidate.Campaign(w.Context())
		require.NoError(w, err)
		w.runner.begin(func(error) {})
		candidate.Resign()
		led := make(chan outcome, 1)
		go func() { led <- w.runner.lead(term) }()
		synctest.Wait()
		for _, c := range w.commands {
			c.results <- guard.Result{Code: 143} // so that the test ends
		}
		o := <-led
		require.Zero(w, w.started())
		require.Equal(w, missed, o.kind)
		require.ErrorIs(w, o.err, leadership.ErrResigned)
		require.NoError(w, term.Withdraw(w.Context()))
	})
}

func TestVerdict(t *testing.T) {
	over, refused := context.Canceled, errors.New("refused")
	for _, test := range []struct {
		result        guard.Result
		over, refused error
		kind          kind
		code          int
	}{
		{guard.Result{Cause: guard.Exited}, nil, nil, exited, 0},
		{guard.Result{Code: 130, Signal: 2, Cause: guard.Exited}, nil, nil, exited, 130},
		{guard.Result{Code: 137, Signal: 9, Cause: guard.Killed}, nil, nil, exited, 137},
		{guard.Result{Code: 137, Cause: guard.GuardianDied}, nil, nil, failed, 125},
		{guard.Result{Code: 137, Cause: guard.GuardianDied}, over, nil, lost, 75},
		{guard.Result{Code: 143, Cause: guard.Stopped}, nil, refused, failed, 125},
		{guard.Result{Code: 0, Cause: guard.Stopped}, over, nil, lost, 75},
		{guard.Result{Code: 0, Cause: guard.Deadline}, nil, nil, lost, 75},
	} {
		o := verdict(test.result, test.over, test.refused)
		require.Equal(t, test.kind, o.kind, "%+v", test)
		require.Equal(t, test.code, o.code, "%+v", test)
		require.Equal(t, o.kind == exited, o.err == nil)
	}
}

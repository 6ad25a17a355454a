package main

import (
	"testing"
	"testing/synctest"
	"time"

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

package leadership_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// A process may lead or follow thousands of elections. Each costs two goroutines of the library's, one here and one of the
// engine, and the one that called Run.
func TestGoroutinesOfEachElection(t *testing.T) {
	const elections = 50
	name := func(i int) string { return fmt.Sprint("one/", i) }
	virtualRun(t, "led", func(w *world) {
		st := w.open()
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		run := func(i int) <-chan error {
			c, err := leadership.NewCandidate(st, name(i), "a", nil)
			require.NoError(w, err)
			result := async(func() error { return c.Run(ctx, serve) })
			w.until(c.IsLeader)
			return result
		}
		results := []<-chan error{run(0)}
		before := goroutines()
		for i := range elections {
			results = append(results, run(i+1))
		}
		w.at(2 * ttl)
		require.Equal(w, 3*elections, goroutines()-before)
		cancel()
		for _, result := range results {
			require.ErrorIs(w, <-result, context.Canceled)
		}
	})
	virtualRun(t, "followed", func(w *world) {
		st := w.open()
		follow := func(i int) {
			f, err := leadership.NewFollower(st, name(i), nil)
			require.NoError(w, err)
			w.Cleanup(func() { w.end(f) })
			f.Start()
		}
		follow(0)
		before := goroutines()
		for i := range elections {
			follow(i + 1)
		}
		w.at(2 * ttl)
		require.Equal(w, 2*elections, goroutines()-before)
	})
}

// goroutines returns how many there are in this test's bubble when everything is at rest.
func goroutines() int {
	synctest.Wait()
	all := stacks()
	return strings.Count(all, regexp.MustCompile(`synctest bubble \d+\]`).FindString(all)) // the first is this goroutine
}

// Hooks and a log cost no goroutine while there is nothing to report.
func TestHooksCostNoGoroutine(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		var log journal
		st := w.open()
		lead := func(opts *leadership.Options) int {
			before := goroutines()
			c := w.candidate(st, "a", opts)
			c.RunForElection()
			w.until(c.IsLeader)
			w.at(w.now() + 2*ttl)
			cost := goroutines() - before
			halt(c)
			synctest.Wait()
			return cost
		}
		lead(nil) // opens the session
		plain := lead(nil)
		require.Equal(w, plain, lead(&leadership.Options{Hooks: keeping(w, &happened), Logger: log.logger()}))
	})
}

// TestNothingWaitsForANewLeaderCallbackThatHangs: however often a candidate stands again meanwhile, no goroutine of an earlier
// turn waits.
func TestNothingWaitsForANewLeaderCallbackThatHangs(t *testing.T) {
	virtual(t, func(w *world) {
		other := w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		released := make(chan struct{})
		c.OnNewLeader(func(context.Context, leadership.Leader) { <-released })
		c.RunForElection()
		synctest.Wait()
		require.NoError(w, other.Withdraw(background))
		again := func(times int) int {
			for range times {
				token := c.Term().Token()
				c.Resign()
				w.until(func() bool { term := c.Term(); return term != nil && term.Token() > token })
			}
			return goroutines()
		}
		w.until(c.IsLeader)
		before := again(1)
		require.Equal(w, before, again(10))
		close(released)
	})
}

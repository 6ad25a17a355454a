package leadership_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Each way to end a candidate, in every state, twice, and after the other ways. None is an attempt that has failed.
func TestEndsInEveryState(t *testing.T) {
	states := map[string]func(w *world, c *leadership.Candidate){
		"idle":        func(*world, *leadership.Candidate) {},
		"campaigning": func(_ *world, c *leadership.Candidate) { go campaignOnce(c) },
		"running":     func(_ *world, c *leadership.Candidate) { run(c, serve) },
	}
	ends := map[string]func(w *world, c *leadership.Candidate, st store.Store){
		"Stop": func(_ *world, c *leadership.Candidate, _ store.Store) { halt(c) },
		"Resign": func(w *world, c *leadership.Candidate, _ store.Store) {
			c.Resign()
			require.False(w, c.IsLeader())
		},
		"Close": func(w *world, _ *leadership.Candidate, st store.Store) { require.NoError(w, st.Close()) },
	}
	for state, enter := range states {
		for _, waits := range []bool{false, true} {
			for first, end := range ends {
				for second, endAgain := range ends {
					name := state + ": " + first + ", " + second
					if waits {
						name += " while another leads"
					}
					virtualRun(t, name, func(w *world) {
						if waits {
							w.lead(w.open(), "other")
						}
						st := w.open()
						c := w.candidate(st, "a", withoutErrors(w))
						enter(w, c)
						synctest.Wait()
						end(w, c, st)
						end(w, c, st)
						endAgain(w, c, st)
						halt(c)
						ends["Resign"](w, c, st) // after Stop
						halt(c)
						require.Less(w, w.now(), 10*time.Millisecond)
						require.False(w, c.IsLeader())
						require.NotContains(w, w.ballots(), "a")
						require.NotEqual(w, "a", w.leader())
						_, err := c.Campaign(background)
						require.ErrorIs(w, err, leadership.ErrStopped)
						require.ErrorIs(w, c.Run(background, leadership.Lead), leadership.ErrStopped)
					})
				}
			}
		}
	}
}

// Done is closed at once if nothing had begun, and not before Stop.
func TestDone(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c, f := w.candidate(st, "a", nil), w.follower(st, nil)
		require.False(w, isDone(c))
		require.False(w, isDone(f))
		halt(c)
		halt(f)
		require.Zero(w, st.Faults().Requests())
		require.ErrorIs(w, c.Run(background, leadership.Lead), leadership.ErrStopped)
		f.Start()
		_, err := f.Wait(background)
		require.ErrorIs(w, err, leadership.ErrStopped)
	})
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		require.NoError(w, w.campaign(c).Withdraw(background))
		require.False(w, isDone(c), "it is idle and may campaign again")
		halt(c)
	})
}

// Stop leaves the ballot of a term that Campaign returned to the caller: only the caller knows when the work has
// stopped.
func TestStopLeavesTheBallotToTheOwnerOfTheTerm(t *testing.T) {
	virtual(t, func(w *world) {
		a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
		term := w.campaign(a)
		waiting := campaigning(background, b)
		require.True(w, pending(waiting))
		a.Stop()
		require.ErrorIs(w, context.Cause(term.Context()), leadership.ErrStopped)
		w.at(10 * ttl)
		require.True(w, pending(waiting), "the work of the first goes on")
		require.False(w, isDone(a))
		require.NoError(w, term.Withdraw(background))
		require.True(w, isDone(a))
		require.NoError(w, <-waiting)
	})
}

// Stop waits for nothing: neither the leader's function, nor a callback, nor a store that does not answer.
func TestStopOnACutLine(t *testing.T) {
	for form, drive := range forms {
		virtualRun(t, form, func(w *world) {
			st := w.open()
			c := w.candidate(st, "a", nil)
			result := async(func() error { return drive(background, c, func() {}) })
			w.at(time.Second)
			require.True(w, c.IsLeader())
			st.Faults().Cut()
			c.Stop()
			require.Equal(w, time.Second, w.now())
			require.False(w, c.IsLeader())
			w.at(ttl - 1)
			require.Equal(w, []string{"a"}, w.ballots())
			require.Equal(w, form == "Campaign", isDone(c), "its driver has given up after a second")
			st.Faults().Heal()
			synctest.Wait()
			require.Empty(w, w.ballots(), "the store went on by itself")
			require.True(w, isDone(c))
			require.NoError(w, <-result)
		})
	}
}

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

// stacks returns the stacks of all goroutines. runtime.NumGoroutine also counts some that are about to end.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// goroutines returns how many there are in this test's bubble when everything is at rest.
func goroutines() int {
	synctest.Wait()
	all := stacks()
	return strings.Count(all, regexp.MustCompile(`synctest bubble \d+\]`).FindString(all)) // the first is this goroutine
}

// Events and a log cost no goroutine while nothing happens.
func TestEventsCostNoGoroutine(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		var log journal
		st := w.open()
		lead := func(opts *leadership.CandidateOptions) int {
			before := goroutines()
			c := w.candidate(st, "a", opts)
			run(c, leadership.Lead)
			w.until(c.IsLeader)
			w.at(w.now() + 2*ttl)
			cost := goroutines() - before
			halt(c)
			synctest.Wait()
			return cost
		}
		lead(nil) // opens the session
		plain := lead(nil)
		opts := telling(&happened)
		opts.Logger = log.logger()
		require.Equal(w, plain, lead(opts))
	})
}

// Many goroutines call every method at once, in any order: nothing deadlocks, panics or is left behind.
func TestEverythingAtOnce(t *testing.T) {
	for range often(20) {
		virtual(t, func(w *world) {
			st := w.open()
			f := w.follower(st, nil)
			var candidates []*leadership.Candidate
			for _, value := range []string{"a", "b", "c"} {
				candidates = append(candidates, w.candidate(st, value, nil))
			}
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			calls := []func(c *leadership.Candidate){
				func(c *leadership.Candidate) { _ = c.Run(ctx, leadership.Lead) },
				func(c *leadership.Candidate) { run(c, leadership.Lead) },
				func(c *leadership.Candidate) {
					if term, err := c.Campaign(ctx); err == nil {
						_ = term.Acknowledge(ctx)
						term.Remaining()
						_ = term.Withdraw(ctx)
					}
				},
				func(c *leadership.Candidate) { c.Resign() },
				func(c *leadership.Candidate) {
					if term := termOf(c); term != nil {
						_ = term.Acknowledge(ctx)
					}
				},
				func(c *leadership.Candidate) { c.IsLeader() },
				func(*leadership.Candidate) {
					for range f.Changes(ctx) {
						break
					}
				},
				func(*leadership.Candidate) { f.Start(); f.Leader(); f.AsOf() },
				func(*leadership.Candidate) { _, _ = f.Wait(ctx) },
				func(*leadership.Candidate) { st.Faults().LoseReplies() },
				func(*leadership.Candidate) { st.Faults().Heal() },
			}
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() {
					time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
					calls[rand.IntN(len(calls))](candidates[rand.IntN(len(candidates))])
				})
			}
			w.at(2 * time.Second)
			st.Faults().Heal()
			for range 3 {
				for _, c := range candidates {
					all.Go(func() { halt(c) })
				}
				all.Go(func() { halt(f) })
			}
			all.Wait()
			synctest.Wait()
			require.Less(w, w.now(), time.Minute)
			require.Empty(w, w.ballots())
		})
	}
}

package leadership_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// Many goroutines call every method at once, in any order: nothing deadlocks, panics or is left behind.
func TestEverythingAtOnce(t *testing.T) {
	for range often(20) {
		virtual(t, func(w *world) {
			st := w.open()
			f := w.follower(st, nil)
			f.OnNewLeader(func(context.Context, leadership.Leader) {})
			f.OnLeaderGone(func(context.Context) {})
			var candidates []*leadership.Candidate
			for _, value := range []string{"a", "b", "c"} {
				c := w.candidate(st, value, nil)
				c.OnWon(func(context.Context, *leadership.Term) error { return nil })
				c.OnNewLeader(func(context.Context, leadership.Leader) {})
				c.OnTakeoverFailed(func(error) {})
				candidates = append(candidates, c)
			}
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			calls := []func(c *leadership.Candidate){
				func(c *leadership.Candidate) { _ = c.Run(ctx, leadership.Lead) },
				func(c *leadership.Candidate) { c.RunForElection() },
				func(c *leadership.Candidate) {
					if term, err := c.Campaign(ctx); err == nil {
						_ = term.Acknowledge(ctx)
						term.Remaining()
						term.Deadline()
						_ = term.Withdraw(ctx)
					}
				},
				func(c *leadership.Candidate) { c.Resign() },
				func(c *leadership.Candidate) {
					if term := c.Term(); term != nil {
						_ = term.Acknowledge(ctx)
					}
				},
				func(c *leadership.Candidate) { c.IsLeader() },
				func(*leadership.Candidate) { f.FollowElection() },
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

// The candidate is not idle before all that Run has started is over.
func TestRunIsNotOverBeforeItsCallbacks(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		resumed := make(chan struct{})
		c.OnNewLeader(func(context.Context, leadership.Leader) { <-resumed })
		ctx, cancel := context.WithCancel(background)
		result := async(func() error { return c.Run(ctx, serve) })
		require.True(w, pending(result))
		cancel()
		require.True(w, pending(result))
		_, err := c.Campaign(background)
		close(resumed)
		require.ErrorIs(w, err, leadership.ErrRunning)
		require.ErrorIs(w, <-result, context.Canceled)
	})
}

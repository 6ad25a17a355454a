package leadership_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// When Resign or Stop returns, the candidate does not lead. The term's context and all contexts derived from it have
// ended, also if another call is ending the term at the same time, which takes long with so many contexts. When the
// context ends, the candidate does not lead any more.
func TestContextHasEndedWhenResignReturns(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for range often(30) {
			c, err := leadership.NewCandidate(st, election, "a", nil)
			require.NoError(w, err)
			term := w.campaign(c)
			goOn := func(ctx context.Context) bool { return ctx.Err() == nil }
			contexts := []context.Context{term.Context()}
			for range 1000 {
				derived, cancel := context.WithCancel(term.Context())
				defer cancel()
				contexts = append(contexts, derived)
			}
			var late atomic.Int32
			var calls sync.WaitGroup
			for _, end := range []func(){c.Resign, c.Resign, c.Stop, c.Stop} {
				calls.Go(func() {
					end()
					if c.IsLeader() || slices.ContainsFunc(contexts, goOn) {
						late.Add(1)
					}
				})
			}
			calls.Go(func() {
				<-term.Context().Done()
				if c.IsLeader() {
					late.Add(1)
				}
			})
			calls.Wait()
			require.Zero(w, late.Load())
			require.NoError(w, term.Withdraw(background))
		}
	})
}

// However a term ends, IsLeader is false before its ballot is withdrawn: the next candidate leads from then on.
func TestTermIsOverBeforeItsBallotIsWithdrawn(t *testing.T) {
	for name, drive := range map[string]func(w *world, c *leadership.Candidate){
		"Resign": func(w *world, c *leadership.Candidate) { require.NoError(w, w.campaign(c).Withdraw(background)) },
		"lead returns": func(w *world, c *leadership.Candidate) {
			calls := 0
			require.NoError(w, c.Run(background, func(context.Context, *leadership.Term) error {
				if calls++; calls == 2 {
					c.Stop()
				}
				return nil
			}))
		},
		"lead panics": func(w *world, c *leadership.Candidate) {
			require.Panics(w, func() {
				_ = c.Run(background, func(context.Context, *leadership.Term) error { panic("boom") })
			})
		},
	} {
		virtualRun(t, name, func(w *world) {
			var c *leadership.Candidate
			var led []bool
			st := changing(w.open(), func(b *fakeBallot) {
				b.withdraw = func(ctx context.Context) error {
					led = append(led, c.IsLeader())
					return b.Ballot.Withdraw(ctx)
				}
			})
			c = w.candidate(st, "a", nil)
			drive(w, c)
			require.NotEmpty(w, led)
			require.NotContains(w, led, true)
		})
	}
}

// If Stop comes when the ballot is first and the term has not begun, the term does not begin.
func TestStopJustBeforeTheTermBegins(t *testing.T) {
	virtual(t, func(w *world) {
		var c *leadership.Candidate
		var began atomic.Bool
		c = w.candidate(changing(w.open(), func(b *fakeBallot) { b.onLease = func() { c.Stop() } }), "a",
			&leadership.Options{Hooks: &leadership.Hooks{TermBegan: func(string, uint64) { began.Store(true) }}})
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrStopped)
		require.False(w, c.IsLeader())
		require.False(w, began.Load())
		require.Empty(w, w.ballots())
	})
}

// The candidate holds no lock while it logs, so a log handler may call it.
func TestLogHandlerThatResigns(t *testing.T) {
	virtual(t, func(w *world) {
		resign := func() {}
		c := w.candidate(w.open(), "a", handledBy(func(string) { resign() }))
		resign = c.Resign
		term, err := c.Campaign(background)
		require.NoError(w, err)
		require.False(w, c.IsLeader(), "it has resigned")
		require.NoError(w, term.Withdraw(background))
	})
}

// TermEnded is the last hook of a term while the ballot stands, also if the term ends when a renewal is overdue.
func TestTermEndedIsTheLastHook(t *testing.T) {
	virtual(t, func(w *world) {
		var last atomic.Value
		hooks := &leadership.Hooks{
			InJeopardy: func(string, uint64, time.Duration) { last.Store("in jeopardy") },
			TermEnded:  func(string, uint64, error) { last.Store("ended") },
		}
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.Options{Hooks: hooks})
		for range 30 {
			term := w.campaign(c)
			<-lease.Last().Overdue
			go c.Resign()
			synctest.Wait()
			require.Equal(w, "ended", last.Load())
			lease.Renew(store.Now(), valid)
			require.NoError(w, term.Withdraw(background))
		}
	})
}

// The first hook of a term gives it back. Done waits for that hook, and for the next one.
func TestDoneWaitsForTheFirstHook(t *testing.T) {
	virtual(t, func(w *world) {
		released := make(chan struct{})
		var ended atomic.Bool
		var c *leadership.Candidate
		c = w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
			TermBegan: func(string, uint64) {
				_ = c.Term().Withdraw(background)
				<-released
			},
			TermEnded: func(string, uint64, error) { ended.Store(true) },
		}})
		result := async(func() error { _, err := c.Campaign(background); return err })
		synctest.Wait()
		require.Empty(w, w.ballots())
		c.Stop()
		require.False(w, isDone(c), "Campaign has not returned")
		close(released)
		require.NoError(w, <-result)
		require.True(w, isDone(c))
		require.True(w, ended.Load())
	})
}

// FollowElection sends the present state at once if the follower knows it.
func TestFollowElectionOfAKnownLeader(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		f := w.follower(w.open(), nil)
		f.Start()
		synctest.Wait()
		values, _ := f.FollowElection()
		require.Len(w, values, 1)
		require.Equal(w, "a", <-values)
	})
}

package leadership_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Each way to end a candidate, in every state, twice, and after the other ways.
func TestEndsInEveryState(t *testing.T) {
	states := map[string]func(w *world, c *leadership.Candidate){
		"idle":           func(*world, *leadership.Candidate) {},
		"campaigning":    func(_ *world, c *leadership.Candidate) { go campaignOnce(c) },
		"running":        func(_ *world, c *leadership.Candidate) { go func() { _ = c.Run(background, serve) }() },
		"on the channel": func(_ *world, c *leadership.Candidate) { c.RunForElection() },
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
						c := w.candidate(st, "a", nil)
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

// campaignOnce is a caller of Campaign that works until its term ends.
func campaignOnce(c *leadership.Candidate) {
	if term, err := c.Campaign(background); err == nil {
		<-term.Context().Done()
		_ = term.Withdraw(background)
	}
}

// A normal Stop is not an error: neither the hook nor the channel reports one, in any order of the goroutines.
func TestStopIsNotAnError(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for range often(2000) {
			c, err := leadership.NewCandidate(st, election, "a", &leadership.Options{Hooks: &leadership.Hooks{
				Error: func(_ string, err error, _ time.Duration) { t.Errorf("the hook was told %q", err) },
			}})
			require.NoError(w, err)
			_, errs := c.RunForElection()
			synctest.Wait()
			require.True(w, c.IsLeader())
			halt(c)
			require.NoError(w, <-errs)
			if t.Failed() {
				return
			}
		}
	})
}

// isDone reports whether Done is closed when everything is at rest.
func isDone(s stoppable) bool {
	synctest.Wait()
	select {
	case <-s.Done():
		return true
	default:
		return false
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
		waiting := async(func() error { _, err := b.Campaign(background); return err })
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
			result := async(func() error { return drive(c, &visitor{}) })
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

// Done waits one TTL for a store that does not answer.
func TestDoneWaitsForTheStoreOneTTL(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.withdraw = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		}), "a", nil)
		c.RunForElection()
		w.at(time.Second)
		require.True(w, c.IsLeader())
		c.Stop()
		w.at(time.Second + ttl - 1)
		require.False(w, isDone(c))
		w.at(time.Second + ttl)
		require.True(w, isDone(c))
	})
}

// Each way to end a follower, in every state, twice, and after the other ways.
func TestFollowerEnds(t *testing.T) {
	for name, begin := range map[string]func(f *leadership.Follower){
		"never started": func(*leadership.Follower) {},
		"started":       func(f *leadership.Follower) { f.Start() },
		"on channels":   func(f *leadership.Follower) { f.FollowElection() },
		"with callbacks": func(f *leadership.Follower) {
			f.OnNewLeader(func(context.Context, leadership.Leader) {})
			f.Start()
		},
	} {
		for _, cut := range []bool{false, true} {
			virtual(t, func(w *world) {
				st := w.open()
				if cut {
					st.Faults().Cut()
				}
				f := w.follower(st, nil)
				begin(f)
				synctest.Wait()
				halt(f)
				halt(f)
				f.Start()
				require.NoError(w, st.Close())
				halt(f)
				require.Zero(w, w.now(), name)
				_, led := f.Leader()
				require.False(w, led)
				_, err := f.Wait(background)
				require.ErrorIs(w, err, leadership.ErrStopped)
			})
		}
	}
}

// Close with everything running. The candidates and followers end by themselves, all with the same error.
func TestCloseUnderEverything(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		var results []<-chan error
		for range 5 {
			for _, drive := range forms {
				c := w.candidate(st, "a", nil)
				results = append(results, async(func() error { return drive(c, &visitor{}) }))
			}
			f := w.follower(st, nil)
			results = append(results, async(func() error {
				for range f.Changes(background) {
				}
				_, err := f.Wait(background)
				if err == nil { // there was a leader
					err = leadership.ErrClosed
				}
				return err
			}))
		}
		w.at(ttl)
		require.Len(w, w.ballots(), 15)
		require.NoError(w, st.Close())
		for _, result := range results {
			require.ErrorIs(w, <-result, leadership.ErrClosed)
		}
		require.Empty(w, w.ballots())
		require.Empty(w, w.leader())
	})
}

// stacks returns the stacks of all goroutines. runtime.NumGoroutine also counts some that are about to end.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

package leadership_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// exits are the ways in which a user's function does not return.
var exits = map[string]struct {
	leave func()
	says  string // what the error says
}{
	"panic":  {func() { panic("boom") }, "boom"},
	"Goexit": {runtime.Goexit, "runtime.Goexit"},
}

// If a callback panics or ends its goroutine, only that call ends: the next callback is called, the candidate goes on,
// and the log and the error channel report it.
func TestCallbacksThatExit(t *testing.T) {
	for exit, how := range exits {
		for kind, register := range map[string]func(c *leadership.Candidate, leave, next func()){
			"won": func(c *leadership.Candidate, leave, next func()) {
				turns := 0
				c.OnWon(func(context.Context, *leadership.Term) error {
					if turns++; turns == 1 {
						leave()
					}
					next()
					return nil
				})
			},
			"new-leader": func(c *leadership.Candidate, leave, next func()) {
				c.OnNewLeader(func(context.Context, leadership.Leader) { leave() })
				c.OnNewLeader(func(context.Context, leadership.Leader) { next() })
			},
			"takeover-failed": func(c *leadership.Candidate, leave, next func()) {
				turns := 0
				c.OnWon(func(context.Context, *leadership.Term) error {
					if turns++; turns == 1 {
						return errTakeover
					}
					return nil
				})
				c.OnTakeoverFailed(func(error) { leave() })
				c.OnTakeoverFailed(func(error) { next() })
			},
			"term-ended": func(c *leadership.Candidate, leave, next func()) {
				c.OnTermEnded(func(*leadership.Term, error) { leave() })
				c.OnTermEnded(func(*leadership.Term, error) { next() })
			},
		} {
			virtualRun(t, kind+" "+exit, func(w *world) {
				other := w.lead(w.open(), "other")
				var log journal
				c := w.candidate(w.open(), "a", &leadership.Options{Logger: log.logger()})
				var next atomic.Bool
				register(c, how.leave, func() { next.Store(true) })
				_, errs := c.RunForElection()
				w.at(time.Second)
				require.NoError(w, other.Withdraw(background))
				w.at(ttl)
				if kind == "term-ended" {
					c.Resign()
					synctest.Wait()
				}
				require.Error(w, <-errs)
				require.Contains(w, log.String(), how.says)
				w.at(2 * ttl)
				require.True(w, next.Load(), "the next callback was not called")
				require.True(w, c.IsLeader(), "the candidate does not go on")
				require.Equal(w, "a", w.leader())
				halt(c)
			})
		}
	}
}

// The same for a follower's callback.
func TestFollowersCallbacksThatExit(t *testing.T) {
	for exit, how := range exits {
		virtualRun(t, exit, func(w *world) {
			var happened diary
			f := w.follower(w.open(), nil)
			f.OnLeaderGone(func(context.Context) { how.leave() })
			f.OnLeaderGone(func(context.Context) { happened.add("gone") })
			f.OnNewLeader(func(context.Context, leadership.Leader) { how.leave() })
			f.OnNewLeader(func(context.Context, leadership.Leader) { happened.add("new leader") })
			_, errs := f.FollowElection()
			require.ErrorContains(w, <-errs, how.says)
			w.lead(w.open(), "a")
			require.ErrorContains(w, <-errs, how.says)
			synctest.Wait()
			require.Equal(w, []string{"gone", "new leader"}, happened.all())
		})
	}
}

// Hooks and a log handler that exit each time: the terms go on, all hooks are called again, and each failure is reported.
func TestHooksThatExit(t *testing.T) {
	for exit, how := range exits {
		virtualRun(t, exit, func(w *world) {
			var happened diary
			leave := func(hook string) { happened.add("%s", hook); how.leave() }
			hooks := &leadership.Hooks{
				TermBegan:            func(string, uint64) { leave("TermBegan") },
				TermEnded:            func(string, uint64, error) { leave("TermEnded") },
				Acknowledged:         func(string, uint64, leadership.Leader) { leave("Acknowledged") },
				Cast:                 func(string, uint64) { leave("Cast") },
				GivenBack:            func(string, uint64, time.Duration) { leave("GivenBack") },
				InJeopardy:           func(string, uint64, time.Duration) { leave("InJeopardy") },
				ResignationRequested: func(string, uint64) { leave("ResignationRequested") },
				LeaderChanged:        func(string, leadership.Leader) { leave("LeaderChanged") },
				Error:                func(string, error, time.Duration) { leave("Error") },
			}
			st := w.open()
			f := w.follower(&fakeStore{Store: w.open(), observe: failing(2)}, &leadership.Options{Hooks: hooks})
			_, errs := f.FollowElection()
			synctest.Wait()
			require.ErrorContains(w, <-errs, how.says)
			c := w.candidate(st, "a", &leadership.Options{Hooks: hooks})
			_, errs = c.RunForElection()
			for range 2 {
				w.until(c.IsLeader)
				synctest.Wait()
				require.ErrorContains(w, <-errs, how.says)
				st.Faults().Cut()
				w.until(func() bool { return c.Term().Remaining() < 2*time.Second })
				st.Faults().Heal()
				w.at(w.now() + ttl)
				require.True(w, c.IsLeader())
				require.NoError(w, w.observer.RequestResignation(background, election, c.Term().Token()))
				synctest.Wait()
			}
			w.until(c.IsLeader)
			halt(c)
			require.NoError(w, f.Err())
			for _, hook := range []string{"TermBegan", "TermEnded", "Acknowledged", "Cast", "GivenBack", "InJeopardy", "ResignationRequested", "Error"} {
				require.Greater(w, happened.count(hook), 1, hook)
			}
			require.Equal(w, 1, happened.count("LeaderChanged"))
		})
		virtualRun(t, exit+" of the log handler", func(w *world) {
			st := w.open()
			c, f := w.candidate(st, "a", handledBy(func(string) { how.leave() })), w.follower(st, handledBy(func(string) { how.leave() }))
			_, lost := f.FollowElection()
			require.ErrorContains(w, <-lost, "a line of the log is lost: ")
			_, lost = c.RunForElection()
			require.ErrorContains(w, <-lost, how.says)
			w.until(c.IsLeader)
			leader, err := f.Wait(background)
			require.NoError(w, err)
			require.Equal(w, "a", leader.Value)
			c.Resign()
			w.until(c.IsLeader)
			halt(c)
			halt(f)
			require.Empty(w, w.ballots())
		})
	}
}

// If lead panics or ends its goroutine, the callbacks are called and the ballot is given back before that goes on in the caller
// of Run. The candidate can be used again.
func TestLeadThatExits(t *testing.T) {
	for exit, how := range exits {
		virtualRun(t, exit, func(w *world) {
			c := w.candidate(w.open(), "a", nil)
			var failed, ended error
			c.OnTakeoverFailed(func(err error) { failed = err })
			c.OnTermEnded(func(_ *leadership.Term, cause error) {
				ended = cause
				require.Equal(w, []string{"a"}, w.ballots())
			})
			gone := make(chan any, 1)
			go func() {
				defer func() { gone <- recover() }()
				_ = c.Run(background, func(context.Context, *leadership.Term) error { how.leave(); return nil })
			}()
			if p := <-gone; exit == "panic" {
				require.Equal(w, "boom", p)
			}
			require.ErrorContains(w, failed, "panicked or ended its goroutine")
			require.ErrorIs(w, ended, leadership.ErrResigned)
			require.False(w, c.IsLeader())
			require.Empty(w, w.ballots())
			result := async(func() error { return c.Run(background, serve) })
			require.True(w, pending(result))
			require.True(w, c.IsLeader())
		})
	}
}

// A new-leader callback that blocks and ignores its context keeps no candidate from leading. It runs beside the term,
// but never beside another call of itself. Run returns when it has returned.
func TestNewLeaderCallbackThatBlocks(t *testing.T) {
	virtual(t, func(w *world) {
		other := w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		released := make(chan struct{})
		var running, most, calls atomic.Int32
		c.OnNewLeader(func(context.Context, leadership.Leader) {
			calls.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-released
		})
		result := async(func() error { return c.Run(background, serve) })
		w.at(time.Second)
		require.EqualValues(w, 1, running.Load())
		require.NoError(w, other.Withdraw(background))
		synctest.Wait()
		require.Equal(w, time.Second, w.now())
		require.True(w, c.IsLeader(), "it leads at once")
		require.Equal(w, "a", w.leader())

		next := w.candidate(w.open(), "next", nil) // another leads, and c stands again
		next.RunForElection()
		synctest.Wait()
		c.Resign()
		w.at(ttl)
		require.True(w, next.IsLeader())
		require.Equal(w, []string{"next", "a"}, w.ballots())
		require.EqualValues(w, 1, calls.Load(), "the first call still runs")
		released <- struct{}{}
		synctest.Wait()
		require.EqualValues(w, 2, calls.Load(), "of the leader after its own term")
		require.EqualValues(w, 1, most.Load())

		c.Stop()
		require.True(w, pending(result), "Run waits for what it has started")
		require.False(w, isDone(c))
		require.Equal(w, []string{"next"}, w.ballots(), "the ballot does not wait")
		released <- struct{}{}
		require.NoError(w, <-result)
		require.True(w, isDone(c))
	})
}

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
			t.Run(kind+" "+exit, func(t *testing.T) {
				virtual(t, func(w *world) {
					other := w.lead(w.open(), "other")
					var log journal
					c := w.candidate(w.open(), "a", &leadership.Options{Logger: log.logger()})
					var next atomic.Bool
					register(c, how.leave, func() { next.Store(true) })
					_, errs := c.RunForElection()
					w.at(time.Second)
					require.NoError(w, other.Resign(background))
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
			})
		}
	}
}

// The same for a follower's callback.
func TestFollowersCallbacksThatExit(t *testing.T) {
	for exit, how := range exits {
		t.Run(exit, func(t *testing.T) {
			virtual(t, func(w *world) {
				var happened diary
				f := w.follower(w.open(), nil)
				f.OnLeaderGone(how.leave)
				f.OnLeaderGone(func() { happened.add("gone") })
				f.OnNewLeader(func(leadership.Leader) { how.leave() })
				f.OnNewLeader(func(leadership.Leader) { happened.add("new leader") })
				_, errs := f.FollowElection()
				require.ErrorContains(w, <-errs, how.says)
				w.lead(w.open(), "a")
				require.ErrorContains(w, <-errs, how.says)
				synctest.Wait()
				require.Equal(w, []string{"gone", "new leader"}, happened.all())
			})
		})
	}
}

// If a hook ends its goroutine, the term's last hook is still called, and whatever that goroutine drove reports its
// end.
func TestHooksThatExit(t *testing.T) {
	t.Run("Renewed", func(t *testing.T) {
		virtual(t, func(w *world) {
			ended := make(chan error, 1)
			c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
				Renewed:   func(string, uint64, time.Duration) { runtime.Goexit() },
				TermEnded: func(_ string, _ uint64, cause error) { ended <- cause },
			}})
			c.RunForElection()
			w.at(2 * ttl)
			require.True(w, c.IsLeader(), "the term goes on")
			halt(c)
			require.ErrorIs(w, <-ended, leadership.ErrStopped)
		})
	})
	for _, hook := range []string{"Renewed", "InJeopardy", "ResignationRequested"} {
		t.Run(hook+" is called again", func(t *testing.T) {
			virtual(t, func(w *world) {
				var calls, ended atomic.Int32
				exit := func(name string) {
					if name == hook {
						calls.Add(1)
						runtime.Goexit()
					}
				}
				st := w.open()
				c := w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{
					Renewed:              func(string, uint64, time.Duration) { exit("Renewed") },
					InJeopardy:           func(string, uint64, time.Duration) { exit("InJeopardy") },
					ResignationRequested: func(string, uint64) { exit("ResignationRequested") },
					TermEnded:            func(string, uint64, error) { ended.Add(1) },
				}})
				c.RunForElection()
				w.at(renew)
				for i := range 2 {
					st.Faults().Cut()
					w.until(func() bool { return c.Term().Remaining() < 2*time.Second })
					st.Faults().Heal()
					w.at(w.now() + ttl)
					require.True(w, c.IsLeader())
					require.NoError(w, w.observer.RequestResignation(background, election, c.Term().Token()))
					synctest.Wait()
					require.EqualValues(w, i+1, ended.Load(), "a hook that exits holds up no other")
					w.until(c.IsLeader)
				}
				require.GreaterOrEqual(w, calls.Load(), int32(2))
				halt(c)
				require.EqualValues(w, 3, ended.Load())
			})
		})
	}
	t.Run("TermBegan", func(t *testing.T) {
		virtual(t, func(w *world) {
			c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
				TermBegan: func(string, uint64) { runtime.Goexit() },
			}})
			elected, errs := c.RunForElection()
			require.False(w, <-elected)
			require.ErrorContains(w, <-errs, "ended its goroutine")
			_, open := <-elected
			require.False(w, open)
			synctest.Wait()
			require.Empty(w, w.ballots())
			halt(c)
		})
	})
	for _, hook := range []string{"LeaderChanged", "Error"} {
		t.Run(hook, func(t *testing.T) {
			virtual(t, func(w *world) {
				st := &fakeStore{Store: w.open(), observe: failing(1)}
				hooks := &leadership.Hooks{LeaderChanged: func(string, leadership.Leader) { runtime.Goexit() }}
				if hook == "Error" {
					hooks = &leadership.Hooks{Error: func(string, error, time.Duration) { runtime.Goexit() }}
				}
				f := w.follower(st, &leadership.Options{Hooks: hooks})
				f.Start()
				w.at(time.Second)
				require.ErrorContains(w, f.Err(), "runtime.Goexit", "it says why it has ended")
				require.True(w, isDone(f))
			})
		})
	}
}

// The hook TermBegan panics while another goroutine ends the term. The term is given back once, the panic reaches the
// caller, and the next campaigns work as before.
func TestTermBeganHookThatPanicsWhileTheTermEnds(t *testing.T) {
	for name, end := range map[string]func(w *world, c *leadership.Candidate){
		"Resign":      func(_ *world, c *leadership.Candidate) { c.Resign() },
		"Term.Resign": func(w *world, c *leadership.Candidate) { require.NoError(w, c.Term().Resign(background)) },
		"Stop":        func(_ *world, c *leadership.Candidate) { c.Stop() },
		"removed":     func(w *world, _ *leadership.Candidate) { w.service.Clear(election); synctest.Wait() },
	} {
		for form, drive := range map[string]func(c *leadership.Candidate){
			"Campaign": func(c *leadership.Candidate) { _, _ = c.Campaign(background) },
			"Run":      func(c *leadership.Candidate) { _ = c.Run(background, serve) },
		} {
			t.Run(name+" in "+form, func(t *testing.T) {
				virtual(t, func(w *world) {
					entered, ended := make(chan struct{}), make(chan struct{})
					calls := 0
					var withdrawn atomic.Int32
					st := changing(w.open(), func(b *fakeBallot) {
						b.withdraw = func(ctx context.Context) error { withdrawn.Add(1); return b.Ballot.Withdraw(ctx) }
					})
					c := w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{TermBegan: func(string, uint64) {
						if calls++; calls == 1 {
							close(entered)
							<-ended
							panic("boom")
						}
					}}})
					panicked := make(chan any, 1)
					go func() {
						defer func() { panicked <- recover() }()
						drive(c)
					}()
					<-entered
					end(w, c)
					close(ended)
					require.Equal(w, "boom", <-panicked, "the user's panic")
					require.False(w, c.IsLeader())
					require.Empty(w, w.ballots())
					if name == "Stop" {
						require.True(w, isDone(c))
						return
					}
					term := w.campaign(c)
					require.True(w, c.IsLeader())
					_, err := c.Campaign(background)
					require.ErrorIs(w, err, leadership.ErrRunning, "a third while the second leads")
					require.NoError(w, term.Resign(background))
					halt(c)
					require.Empty(w, w.ballots())
				})
			})
		}
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
		require.NoError(w, other.Resign(background))
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

// A term is given back while its first hook runs, and the next term begins before that hook panics. The panic does not
// end the next term.
func TestTermBeganHookThatPanicsInALaterTerm(t *testing.T) {
	virtual(t, func(w *world) {
		entered, later := make(chan struct{}), make(chan struct{})
		calls := 0
		c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{TermBegan: func(string, uint64) {
			if calls++; calls == 1 {
				close(entered)
				<-later
				panic("boom")
			}
		}}})
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = c.Campaign(background)
		}()
		<-entered
		require.NoError(w, c.Term().Resign(background))
		term := w.campaign(c)
		close(later)
		require.Equal(w, "boom", <-panicked)
		require.True(w, c.IsLeader())
		require.NoError(w, term.Context().Err())
		require.Equal(w, []string{"a"}, w.ballots())
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrRunning, "a third while the second leads")
		c.Stop()
		require.False(w, isDone(c), "the second has not been given back")
		require.NoError(w, term.Resign(background))
		require.True(w, isDone(c))
		require.Empty(w, w.ballots())
	})
}

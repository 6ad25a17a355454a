package leadership_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestNewLeaderCallbacksAreCalledOncePerLeaderAndCoalesce(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		leaders := []*leadership.Candidate{}
		for _, value := range []string{"first", "second", "third"} {
			c := w.candidate(w.open(), value, nil)
			c.RunForElection()
			synctest.Wait()
			leaders = append(leaders, c)
		}
		c := w.candidate(w.open(), "a", nil)
		released := make(chan struct{})
		c.OnNewLeader(func(_ context.Context, leader store.Leader) {
			happened.add("told of %s", leader.Value)
			if leader.Value == "first" {
				<-released
			}
		})
		c.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("then told of %s", leader.Value) })
		c.RunForElection()
		synctest.Wait()
		require.Equal(w, []string{"told of first"}, happened.all(), "one after the other")
		halt(leaders[0])
		synctest.Wait()
		require.True(w, leaders[1].IsLeader())
		halt(leaders[1])
		synctest.Wait()
		require.Equal(w, "third", w.leader())
		close(released)
		w.at(10 * ttl)
		require.Equal(w, []string{
			"told of first", "then told of first", "told of third", "then told of third",
		}, happened.all())
	})
}

func TestNewLeaderCallbacksAreNotCalledWithoutALeader(t *testing.T) {
	virtual(t, func(w *world) {
		first, second := w.lead(w.open(), "first"), w.candidate(w.open(), "second", nil)
		waiting := campaigning(background, second)
		synctest.Wait()
		c := w.candidate(w.open(), "a", nil)
		var happened diary
		c.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("told of %q", leader.Value) })
		c.RunForElection()
		synctest.Wait()
		require.NoError(w, first.Withdraw(background))
		require.NoError(w, <-waiting)
		w.at(ttl)
		require.Equal(w, []string{`told of "first"`}, happened.all())
		require.NoError(w, second.Term().Acknowledge(background))
		synctest.Wait()
		require.Equal(w, []string{`told of "first"`, `told of "second"`}, happened.all())
		require.NoError(w, second.Term().Withdraw(background))
	})
}

// A callback that was called for a leader is not called for the same leader in the next campaign. A callback that was
// left out is.
func TestNewLeaderCallbacksAreCalledOncePerLeaderInAllCampaigns(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		var happened diary
		cancel := func() {}
		for _, name := range []string{"one", "two"} {
			c.OnNewLeader(func(context.Context, store.Leader) { happened.add("%s", name); cancel() })
		}
		for range 2 {
			ctx, end := context.WithCancel(background)
			cancel = end
			_, err := c.Campaign(ctx)
			require.ErrorIs(w, err, context.Canceled)
			synctest.Wait()
			end()
		}
		require.Equal(w, []string{"one", "two"}, happened.all())
	})
}

// The context of a new-leader callback ends when the candidate wins, or stops. The candidate does not wait for a
// callback that goes on, since all other candidates would wait too.
func TestNewLeaderCallbacksContext(t *testing.T) {
	for name, end := range map[string]func(w *world, c *leadership.Candidate, leader *leadership.Term){
		"wins": func(w *world, _ *leadership.Candidate, leader *leadership.Term) {
			require.NoError(w, leader.Withdraw(background))
		},
		"stops": func(_ *world, c *leadership.Candidate, _ *leadership.Term) { c.Stop() },
	} {
		virtualRun(t, name, func(w *world) {
			leader := w.lead(w.open(), "other")
			var happened diary
			c := w.candidate(w.open(), "a", nil)
			c.OnNewLeader(func(ctx context.Context, _ store.Leader) {
				happened.add("begins")
				<-ctx.Done()
				time.Sleep(time.Second)
				happened.add("ends")
			})
			c.OnWon(func(context.Context, *leadership.Term) error { happened.add("won"); return nil })
			c.RunForElection()
			w.at(10 * ttl)
			require.Equal(w, []string{"begins"}, happened.all())
			end(w, c, leader)
			w.at(11 * ttl)
			want := []string{"begins", "ends"}
			if name == "wins" {
				want = []string{"begins", "won", "ends"}
			}
			require.Equal(w, want, happened.all())
		})
	}
}

// A failed read of the leader is tried again, and never keeps a candidate from standing and winning.
func TestNewLeaderCallbacksSurviveErrors(t *testing.T) {
	for _, failure := range []error{errors.New("never seen before"), store.ErrDenied, store.ErrInvalid} {
		virtualRun(t, failure.Error(), func(w *world) {
			leader := w.lead(w.open(), "other")
			tries := 0
			st := &fakeStore{Store: w.open()}
			st.observe = func(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
				if tries++; tries != 4 && tries <= 7 {
					return store.Known{}, failure
				}
				return st.Store.Observe(ctx, election, prev)
			}
			var waits []time.Duration
			c := w.candidate(st, "a", trying(&waits, failure))
			var happened diary
			c.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("lost to %s", leader.Value) })
			_, errs := c.RunForElection()
			w.at(time.Minute)
			require.ErrorIs(w, <-errs, failure)
			if store.Permanent(failure) {
				require.Empty(w, happened.all())
				require.Empty(w, waits)
			} else {
				require.Equal(w, []string{"lost to other"}, happened.all())
				require.Len(w, waits, 6)
				requireBackoff(w, waits[:3])
				requireBackoff(w, waits[3:]) // an answer came between
			}
			require.NoError(w, leader.Withdraw(background))
			synctest.Wait()
			require.True(w, c.IsLeader())
		})
	}
}

// Between two leaders the death is reported once, even if the second leads at once.
func TestFollowerCallbacksAtADirectChange(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		f, tell := w.scripted()
		f.OnNewLeader(func(_ context.Context, leader leadership.Leader) { happened.add("new leader %s", leader.Value) })
		f.OnLeaderGone(func(context.Context) { happened.add("gone") })
		f.Start()
		tell(1, "a")
		tell(2, "b")
		tell(0, "")
		tell(3, "b")
		require.Equal(w, []string{
			"new leader a", "gone", "new leader b", "gone", "new leader b",
		}, happened.all())
	})
}

// A slow callback delays no other, and states that arrive meanwhile are merged.
func TestFollowerCallbackThatIsSlow(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		released := make(chan struct{})
		f := w.follower(w.open(), nil)
		f.OnLeaderGone(func(context.Context) { happened.add("gone"); <-released })
		f.OnNewLeader(func(_ context.Context, leader leadership.Leader) { happened.add("new leader %s", leader.Value) })
		f.Start()
		synctest.Wait()
		for _, value := range []string{"a", "b", "c"} {
			w.service.Clear(election)
			w.lead(w.open(), value)
			synctest.Wait()
			leader, _ := f.Leader()
			require.Equal(w, value, leader.Value)
		}
		close(released)
		synctest.Wait()
		require.Equal(w, []string{"gone", "new leader c"}, happened.all())
		stopped := async(func() error { f.Stop(); return nil })
		require.NoError(w, <-stopped)
	})
}

// The channel of errors is closed by then.
func TestFollowerCallbackThatPanicsAfterStop(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		called, released := make(chan struct{}), make(chan struct{})
		f.OnLeaderGone(func(context.Context) {
			close(called)
			<-released
			panic("boom")
		})
		_, errs := f.FollowElection()
		<-called
		f.Stop()
		requireClosed(w, errs)
		close(released)
		<-f.Done()
	})
}

func TestFollowerStopWaitsForCallbacks(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		f.OnLeaderGone(func(context.Context) { time.Sleep(10 * ttl) })
		f.Start()
		w.at(time.Second)
		require.NoError(w, f.Err())
		halt(f)
		require.ErrorIs(w, f.Err(), leadership.ErrStopped)
		require.Equal(w, 10*ttl, w.now())
		halt(f)
		require.Equal(w, 10*ttl, w.now())
	})
}

// The context of a follower's callback ends with the follower.
func TestFollowerCallbacksContext(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		var happened diary
		f.OnLeaderGone(func(ctx context.Context) { happened.add("gone"); <-ctx.Done() })
		f.Start()
		w.at(ttl)
		require.Equal(w, []string{"gone"}, happened.all())
		halt(f)

		f = w.follower(w.open(), nil)
		f.OnNewLeader(func(ctx context.Context, _ leadership.Leader) {
			<-ctx.Done()
			happened.add("%v", context.Cause(ctx))
		})
		w.lead(w.open(), "a")
		f.Start()
		w.at(2 * ttl)
		halt(f)
		require.Equal(w, []string{"gone", "stopped"}, happened.all())
	})
}

// TestLateCallback: a callback that is registered after the follower has started hears of the next change, and the log says
// so.
func TestLateCallback(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		var happened diary
		term := w.lead(w.open(), "a")
		f := w.follower(w.open(), &leadership.Options{Logger: log.logger()})
		f.Start()
		synctest.Wait()
		require.NotContains(w, log.String(), "WARN")
		f.OnNewLeader(func(_ context.Context, leader leadership.Leader) { happened.add("leader %s", leader.Value) })
		synctest.Wait()
		require.Equal(w, 1, strings.Count(log.String(), "a callback was registered after the follower had started"))
		f.OnLeaderGone(func(context.Context) { happened.add("gone") })
		synctest.Wait()
		require.Equal(w, 2, strings.Count(log.String(), "a callback was registered after the follower had started"))
		synctest.Wait()
		require.Empty(w, happened.all(), "nothing has changed")
		require.NoError(w, term.Withdraw(background))
		w.lead(w.open(), "b")
		synctest.Wait()
		require.Equal(w, []string{"gone", "leader b"}, happened.all())
		halt(f)
		f.OnLeaderGone(func(context.Context) {})
		synctest.Wait()
		require.Equal(w, 2, strings.Count(log.String(), "a callback was registered"), "nothing is logged after Done")
	})
}

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
			require.ErrorIs(w, ended, leadership.ErrFailed)
			require.False(w, c.IsLeader())
			require.Empty(w, w.ballots())
			result := run(c, serve)
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
		result := run(c, serve)
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

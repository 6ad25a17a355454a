package leadership_test

import (
	"context"
	"errors"
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
		waiting := async(func() error { _, err := second.Campaign(background); return err })
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
			c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
				TermBegan: func(string, uint64) { happened.add("the term begins") },
			}})
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
				want = []string{"begins", "the term begins", "won", "ends"}
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

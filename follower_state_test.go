package leadership_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestWaitEndsEarly(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		ctx, cancel := context.WithTimeoutCause(background, time.Second, errChangedMind)
		defer cancel()
		_, err := f.Wait(ctx)
		require.ErrorIs(w, err, errChangedMind)
		require.Equal(w, time.Second, w.now())
		waiting := async(func() error { _, err := f.Wait(background); return err })
		require.True(w, pending(waiting))
		halt(f)
		require.ErrorIs(w, <-waiting, leadership.ErrStopped)
		_, err = f.Wait(background)
		require.ErrorIs(w, err, leadership.ErrStopped)
	})
}

// The first state is the present one, also if there is no leader. After it comes each state that differs from the one
// yielded before.
func TestChanges(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		var seen diary
		next := make(chan struct{})
		iterating := async(func() error {
			for leader := range f.Changes(background) {
				seen.add("%s", leader.Value)
				<-next
			}
			return nil
		})
		synctest.Wait()
		require.Equal(w, []string{""}, seen.all())
		w.lead(w.open(), "a")
		synctest.Wait()
		require.Equal(w, []string{""}, seen.all(), "the reader is slow")
		next <- struct{}{}
		synctest.Wait()
		require.Equal(w, []string{"", "a"}, seen.all())
		w.service.Clear(election)
		w.lead(w.open(), "b")
		w.service.Clear(election)
		w.lead(w.open(), "c")
		synctest.Wait()
		next <- struct{}{}
		synctest.Wait()
		require.Equal(w, []string{"", "a", "c"}, seen.all(), "what came meanwhile is coalesced")
		next <- struct{}{}
		halt(f)
		require.NoError(w, <-iterating)
		require.Equal(w, []string{"", "a", "c"}, seen.all())
	})
}

// An iterator yields nothing after its context or its follower has ended: the state might be out of date.
func TestChangesEndsWithoutAStaleValue(t *testing.T) {
	for name, end := range map[string]func(f *leadership.Follower, cancel func()){
		"stopped": func(f *leadership.Follower, _ func()) { f.Stop() },
		"context": func(_ *leadership.Follower, cancel func()) { cancel() },
	} {
		virtualRun(t, name, func(w *world) {
			f := w.follower(w.open(), nil)
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			var seen diary
			next := make(chan struct{})
			iterating := async(func() error {
				for leader := range f.Changes(ctx) {
					seen.add("%s", leader.Value)
					<-next
				}
				return nil
			})
			w.lead(w.open(), "a")
			synctest.Wait()
			end(f, cancel)
			close(next)
			require.NoError(w, <-iterating)
			require.Equal(w, []string{""}, seen.all())
			for leader := range f.Changes(ctx) {
				require.Fail(w, "an iterator that begins later yields", "%v", leader)
			}
			_, err := f.Wait(ctx)
			require.Error(w, err)
		})
	}
}

// After Stop, Leader and AsOf return the last known leader and the time for which it was right.
func TestLeaderAfterStop(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		term := w.lead(w.open(), "a")
		_, err := f.Wait(background)
		require.NoError(w, err)
		w.at(ttl)
		halt(f)
		asOf := f.AsOf()
		require.NoError(w, term.Withdraw(background))
		w.at(3 * ttl)
		leader, ok := f.Leader()
		require.True(w, ok)
		require.Equal(w, "a", leader.Value)
		require.Equal(w, asOf, f.AsOf())
		require.False(w, asOf.After(w.began.Add(ttl)))
		require.ErrorIs(w, f.Err(), leadership.ErrStopped)
	})
}

// A state that came and went while the reader was busy is not yielded.
func TestChangesYieldsNothingTwice(t *testing.T) {
	virtual(t, func(w *world) {
		answers := make(chan store.Leader)
		f := w.follower(&fakeStore{Store: w.open(), observe: inTurn(answers)}, nil)
		var seen diary
		next := make(chan struct{})
		ctx, cancel := context.WithCancel(background)
		iterating := async(func() error {
			for leader := range f.Changes(ctx) {
				seen.add("%d", leader.Revision)
				<-next
			}
			return nil
		})
		answers <- store.Leader{Value: "a", Revision: 1}
		synctest.Wait()
		answers <- store.Leader{}
		synctest.Wait()
		answers <- store.Leader{Value: "a", Revision: 1}
		synctest.Wait()
		next <- struct{}{}
		synctest.Wait()
		require.Equal(w, []string{"1"}, seen.all())
		answers <- store.Leader{Value: "a", Revision: 2}
		synctest.Wait()
		require.Equal(w, []string{"1", "2"}, seen.all(), "the same value, another acknowledgement")
		next <- struct{}{}
		synctest.Wait()
		cancel()
		require.NoError(w, <-iterating)
	})
}

// Between two leaders the death is reported once, even if the second leads at once.
func TestFollowerCallbacksAtADirectChange(t *testing.T) {
	virtual(t, func(w *world) {
		answers := make(chan store.Leader)
		var happened diary
		f := w.follower(&fakeStore{Store: w.open(), observe: inTurn(answers)}, nil)
		f.OnNewLeader(func(_ context.Context, leader leadership.Leader) { happened.add("new leader %s", leader.Value) })
		f.OnLeaderGone(func(context.Context) { happened.add("gone") })
		f.Start()
		for _, leader := range []store.Leader{{Value: "a", Revision: 1}, {Value: "b", Revision: 2}, {}, {Value: "b", Revision: 3}} {
			answers <- leader
			synctest.Wait()
		}
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
		require.Equal(w, 1, strings.Count(log.String(), "a callback was registered after the follower had started"))
		f.OnLeaderGone(func(context.Context) { happened.add("gone") })
		require.Equal(w, 2, strings.Count(log.String(), "a callback was registered after the follower had started"))
		synctest.Wait()
		require.Empty(w, happened.all(), "nothing has changed")
		require.NoError(w, term.Withdraw(background))
		w.lead(w.open(), "b")
		synctest.Wait()
		require.Equal(w, []string{"gone", "leader b"}, happened.all())
		halt(f)
		f.OnLeaderGone(func(context.Context) {})
		require.Equal(w, 2, strings.Count(log.String(), "a callback was registered"), "nothing is logged after Done")
	})
}

// TestFollowElectionMissesNoError: the channel has the first error also if it comes before FollowElection returns.
func TestFollowElectionMissesNoError(t *testing.T) {
	defer watchdog(t.Name())()
	st := &fakeStore{Store: open()}
	defer st.Close()
	st.observe = func(context.Context, string, *store.Known) (store.Known, error) {
		return store.Known{}, store.ErrUnavailable
	}
	for range often(5_000) {
		told := make(chan struct{})
		var once sync.Once
		f, err := leadership.NewFollower(st, election, &leadership.Options{Hooks: &leadership.Hooks{
			Error: func(string, error, time.Duration) { once.Do(func() { close(told) }) },
		}})
		require.NoError(t, err)
		_, errs := f.FollowElection()
		<-told
		require.Len(t, errs, 1)
		halt(f)
	}
}

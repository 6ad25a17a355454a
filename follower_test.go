package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A follower begins to follow at the first call of Start, Leader, Wait or Changes, and not before.
func TestFollowerBegins(t *testing.T) {
	for name, begin := range map[string]func(f *leadership.Follower){
		"Start":   func(f *leadership.Follower) { f.Start(); f.Start() },
		"Leader":  func(f *leadership.Follower) { f.Leader() },
		"Wait":    func(f *leadership.Follower) { _, _ = f.Wait(background) },
		"Changes": func(f *leadership.Follower) { f.Changes(background) }, // also if nothing ranges over it yet
	} {
		virtualRun(t, name, func(w *world) {
			w.lead(w.open(), "a")
			st := w.open()
			f := w.follower(st, nil)
			_, err := leadership.NewFollower(st, "a__b", nil)
			require.ErrorIs(w, err, store.ErrInvalid)
			w.at(time.Second)
			require.Zero(w, st.Faults().Requests())
			require.Zero(w, f.AsOf())
			begin(f)
			synctest.Wait()
			leader, led := f.Leader()
			require.True(w, led)
			require.Equal(w, "a", leader.Value)
			require.Equal(w, w.began.Add(time.Second), f.AsOf())
		})
	}
}

// scripted returns a follower, and tells it what the store answers next.
func (w *world) scripted() (f *leadership.Follower, tell func(revision uint64, value string)) {
	w.Helper()
	answers := make(chan store.Leader)
	f = w.follower(&fakeStore{Store: w.open(), observe: func(ctx context.Context, _ string, _ *store.Known) (store.Known, error) {
		select {
		case leader := <-answers:
			return store.Known{Leader: leader, AsOf: time.Now()}, nil
		case <-ctx.Done():
			return store.Known{}, context.Cause(ctx)
		}
	}}, nil)
	return f, func(revision uint64, value string) {
		answers <- store.Leader{Value: value, Revision: revision}
		synctest.Wait()
	}
}

// iterate ranges over Changes in the background, and writes down each leader. After each it waits for next.
func iterate(ctx context.Context, f *leadership.Follower) (seen *diary, next chan struct{}, done <-chan error) {
	seen, next = &diary{}, make(chan struct{})
	return seen, next, async(func() error {
		for leader := range f.Changes(ctx) {
			seen.add("%s", leader.Value)
			<-next
		}
		return nil
	})
}

// An error is reported, even from the start, and tried again.
func TestFollowerTriesAgain(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		failure := errors.New("never seen before")
		tries, recovered := 0, time.Duration(0)
		st := &fakeStore{Store: w.open()}
		st.observe = func(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
			if tries++; tries == 13 {
				recovered = w.now()
			}
			if tries != 9 && tries <= 12 {
				return store.Known{}, failure
			}
			return st.Store.Observe(ctx, election, prev)
		}
		var waits []time.Duration
		f := w.follower(st, trying(&waits, failure))
		leader, err := f.Wait(background)
		require.NoError(w, err)
		require.Equal(w, "a", leader.Value)
		w.at(2 * ttl)
		require.Len(w, waits, 11)
		requireBackoff(w, waits[:8])
		requireBackoff(w, waits[8:]) // an answer came between
		total := time.Duration(0)
		for _, in := range waits {
			total += in
		}
		require.Equal(w, total, recovered)
	})
}

// A permanent error ends the follower: the error is reported, and nothing is left.
func TestFollowerEndsWithWhatCannotBeCured(t *testing.T) {
	for _, failure := range []error{store.ErrClosed, store.ErrInvalid} {
		virtualRun(t, failure.Error(), func(w *world) {
			st := &fakeStore{Store: w.open()}
			st.observe = func(context.Context, string, *store.Known) (store.Known, error) {
				return store.Known{}, &store.Error{Op: "read the leader", Err: failure}
			}
			var log journal
			f := w.follower(st, log.heard(nil))
			waiting := async(func() error { _, err := f.Wait(background); return err })
			require.ErrorIs(w, <-waiting, failure)
			_, err := f.Wait(background)
			require.ErrorIs(w, err, failure)
			require.ErrorIs(w, f.Err(), failure)
			halt(f)
			require.ErrorIs(w, f.Err(), failure, "what ended it")
			for range f.Changes(background) {
				t.Error("there is nothing to yield")
			}
			require.Zero(w, w.now())
			require.Contains(w, log.String(), `level=ERROR msg="permanent error, the follower stops"`)
		})
	}
}

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
		seen, next, iterating := iterate(background, f)
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
		w.stops(f, iterating)
		require.Equal(w, []string{"", "a", "c"}, seen.all())
	})
	virtual(t, func(w *world) {
		f, tell := w.scripted()
		seen, next, iterating := iterate(background, f)
		tell(1, "a")
		tell(0, "")
		tell(1, "a")
		next <- struct{}{}
		synctest.Wait()
		require.Equal(w, []string{"a"}, seen.all(), "it came and went")
		tell(2, "a")
		require.Equal(w, []string{"a", "a"}, seen.all(), "the same value, another acknowledgement")
		next <- struct{}{}
		w.stops(f, iterating)
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
			seen, next, iterating := iterate(ctx, f)
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

// A follower reports an address that does not answer, though an outage is no error to the store.
func TestFollowerSaysThatThereIsNoAnswer(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		said := make(chan error, 10)
		f := w.follower(st, on(leadership.AttemptFailed, func(e leadership.Event) { said <- e.Err }))
		st.Faults().Cut()
		f.Start()
		w.at(9 * time.Second)
		require.Empty(w, said)
		w.at(11 * time.Second)
		require.Len(w, said, 1)
		require.ErrorIs(w, <-said, store.ErrUnavailable)
		require.NoError(w, f.Err())
		st.Faults().Heal()
		w.at(13 * time.Second)
		require.NotZero(w, f.AsOf())
		require.Empty(w, said)
	})
}

// A first state without a leader is no change of leader.
func TestFirstStateWithoutALeaderIsNoChange(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		opts := on(leadership.LeaderChanged, func(e leadership.Event) { fmt.Fprintf(&log, "event: %q\n", e.Leader.Value) })
		opts.Logger = log.logger()
		f := w.follower(w.open(), opts)
		f.Start()
		w.at(time.Second)
		require.Contains(w, log.String(), `msg="no leader yet"`)
		require.NotContains(w, log.String(), "changed")
		require.NotContains(w, log.String(), "event: ")
		term := w.lead(w.open(), "a")
		w.at(2 * time.Second)
		require.NoError(w, term.Withdraw(background))
		w.at(3 * time.Second)
		require.Contains(w, log.String(), `msg="leader changed" election=database/primary leader=a`)
		require.Contains(w, log.String(), `msg="leader gone"`)
		require.Contains(w, log.String(), `event: "a"`)
		require.Contains(w, log.String(), `event: ""`)
	})
}

// Fresh compares what was confirmed last with the TTL, to the nanosecond. A suspension of the machine counts: in the first call
// after an hour of it, what a follower knows is an hour old, though a second has passed by the monotonic clock.
func TestFresh(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		st := w.open()
		f := w.follower(st, nil)
		require.False(w, f.Fresh(), "nothing is known")
		require.Zero(w, f.AsOf())
		f.Start()
		for i := range 6 {
			w.at(time.Duration(i) * renew)
			require.Equal(w, w.began.Add(w.now()), f.AsOf(), "with each renewal")
		}
		require.True(w, f.Fresh())
		st.Faults().Cut()
		w.at(5*renew + ttl - 1)
		require.True(w, f.Fresh())
		w.at(5*renew + ttl)
		require.False(w, f.Fresh())
		st.Faults().Heal()
		w.at(20*renew + time.Second)
		require.True(w, f.Fresh())
		require.Equal(w, time.Second, time.Since(f.AsOf()))

		w.Cleanup(suspension.Simulate(time.Hour))
		require.False(w, f.Fresh())
		require.Equal(w, time.Hour+time.Second, time.Since(f.AsOf()))
		w.at(20*renew + ttl)
		require.True(w, f.Fresh())
		require.Less(w, time.Since(f.AsOf()), ttl, "the suspension was before that")
		f.Stop()
		w.at(20*renew + 3*ttl)
		require.False(w, f.Fresh(), "it has ended")
	})
}

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

func TestNewFollowerRefusesWhatStoresDoNotTake(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		_, err := leadership.NewFollower(st, "a__b", nil)
		require.ErrorIs(w, err, store.ErrInvalid)
		_, err = leadership.NewFollower(nil, election, nil)
		require.ErrorIs(w, err, store.ErrInvalid)
		w.follower(st, nil)
		synctest.Wait()
		require.Zero(w, st.Faults().Requests(), "it sends nothing")
	})
}

// A follower begins to follow at the first call of Start, FollowElection, Wait or Changes, and not before.
func TestFollowerBegins(t *testing.T) {
	for name, begin := range map[string]func(f *leadership.Follower){
		"Start":          func(f *leadership.Follower) { f.Start(); f.Start() },
		"FollowElection": func(f *leadership.Follower) { f.FollowElection() },
		"Wait":           func(f *leadership.Follower) { _, _ = f.Wait(background) },
		"Changes":        func(f *leadership.Follower) { f.Changes(background) }, // also if nothing ranges over it yet
	} {
		virtualRun(t, name, func(w *world) {
			w.lead(w.open(), "a")
			st := w.open()
			f := w.follower(st, nil)
			w.at(time.Second)
			require.Zero(w, st.Faults().Requests())
			_, led := f.Leader()
			require.False(w, led)
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

// inTurn is Observe of a store that takes its answers from a channel.
func inTurn(answers <-chan store.Leader) func(context.Context, string, *store.Known) (store.Known, error) {
	return func(ctx context.Context, _ string, _ *store.Known) (store.Known, error) {
		select {
		case leader := <-answers:
			return store.Known{Leader: leader, AsOf: time.Now()}, nil
		case <-ctx.Done():
			return store.Known{}, context.Cause(ctx)
		}
	}
}

// A value that was not read is replaced by the next. A slow reader delays nothing.
func TestFollowElectionCoalesces(t *testing.T) {
	virtual(t, func(w *world) {
		changes := make(chan store.Leader)
		f := w.follower(&fakeStore{Store: w.open(), observe: inTurn(changes)}, nil)
		values, _ := f.FollowElection()
		give := func(revision uint64, value string) {
			changes <- store.Leader{Value: value, Revision: revision}
			synctest.Wait()
		}
		for i := range uint64(100) {
			give(i+1, "never read")
		}
		give(101, "latest")
		require.Equal(w, "latest", <-values)
		require.True(w, pending(values))

		give(102, "never read")
		give(103, "latest")
		require.True(w, pending(values), "it does not differ from the one read last")
		give(104, "another")
		require.Equal(w, "another", <-values)
		give(0, "")
		require.Empty(w, <-values)
	})
}

// A value that was replaced before it was read counts as not sent: if it is right again, it is sent.
func TestFollowElectionAfterAValueThatWasReplaced(t *testing.T) {
	virtual(t, func(w *world) {
		answers := make(chan store.Leader)
		f := w.follower(&fakeStore{Store: w.open(), observe: inTurn(answers)}, nil)
		revision := uint64(0)
		leads := func(value string) {
			revision++
			answers <- store.Leader{Value: value, Revision: revision}
			synctest.Wait()
		}
		values, _ := f.FollowElection()
		leads("a")
		require.Equal(w, "a", <-values)
		leads("b")
		leads("a")
		require.True(w, pending(values))
		leads("b")
		require.False(w, pending(values))
		require.Equal(w, "b", <-values)
	})
}

func TestFollowElectionOnce(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		values, errs := f.FollowElection()
		closed := func() {
			w.Helper()
			values, errs := f.FollowElection()
			requireClosed(w, values)
			for range errs { // it ends
			}
		}
		closed()
		require.Empty(w, <-values)
		halt(f)
		requireClosed(w, values)
		requireClosed(w, errs, "a normal Stop is not an error")
		closed()
	})
}

func TestFollowElectionAfterStop(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		halt(f)
		values, errs := f.FollowElection()
		requireClosed(w, values)
		require.ErrorIs(w, <-errs, leadership.ErrStopped)
		requireClosed(w, errs)
		_, led := f.Leader()
		require.False(w, led, "it answers, and is not locked")
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
		values, errs := f.FollowElection()
		require.ErrorIs(w, <-errs, failure)
		require.Equal(w, "a", <-values)
		w.at(2 * ttl)
		require.Len(w, waits, 11)
		requireBackoff(w, waits[:8])
		requireBackoff(w, waits[8:]) // an answer came between
		total := time.Duration(0)
		for _, in := range waits {
			total += in
		}
		require.Equal(w, total, recovered)
		require.ErrorIs(w, <-errs, failure, "the latest one that was not read")
		require.True(w, pending(errs))
	})
}

// A permanent error ends the follower: the error is reported, the channels are closed, and nothing is left.
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
			values, errs := f.FollowElection()
			requireClosed(w, values)
			require.ErrorIs(w, <-errs, failure)
			requireClosed(w, errs)
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

// If an error ends the follower before FollowElection is called, FollowElection still reports it.
func TestFollowElectionReportsWhatEndedTheFollower(t *testing.T) {
	virtual(t, func(w *world) {
		st := &fakeStore{Store: w.open()}
		st.observe = func(context.Context, string, *store.Known) (store.Known, error) {
			return store.Known{}, store.ErrInvalid
		}
		f := w.follower(st, nil)
		f.Start()
		synctest.Wait()
		values, errs := f.FollowElection()
		requireClosed(w, values)
		require.ErrorIs(w, <-errs, store.ErrInvalid)
	})
}

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

// While the store answers, a follower's knowledge is never older than a fraction of the TTL. While it does not, AsOf
// stays the same, and moves on when the store is back.
func TestAsOf(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		st := w.open()
		f := w.follower(st, nil)
		require.Zero(w, f.AsOf(), "nothing is known")
		w.at(time.Second)
		f.Start()
		synctest.Wait()
		require.Equal(w, w.began.Add(time.Second), f.AsOf(), "when it asked")
		w.at(renew - 1)
		require.Equal(w, w.began.Add(time.Second), f.AsOf())
		for i := range 10 {
			w.at(time.Duration(i+1) * renew)
			require.Equal(w, w.began.Add(time.Duration(i+1)*renew), f.AsOf(), "with each renewal")
		}
		last := 10 * renew
		st.Faults().Cut()
		w.at(last + 10*ttl)
		require.Equal(w, w.began.Add(last), f.AsOf(), "the line is cut")
		leader, led := f.Leader()
		require.True(w, led)
		require.Equal(w, "a", leader.Value, "what it knew then")
		st.Faults().Heal()
		w.at(last + 10*ttl + 2*renew) // not after a whole TTL: then the store reads again, and the answer might come first
		require.Equal(w, w.began.Add(last+10*ttl+2*renew), f.AsOf())
	})
}

// A follower reports an address that does not answer, though an outage is no error to the store.
func TestFollowerSaysThatThereIsNoAnswer(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		said := make(chan error, 10)
		f := w.follower(st, &leadership.Options{Hooks: &leadership.Hooks{
			Error: func(_ string, err error, _ time.Duration) { said <- err },
		}})
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

// After an error AsOf is the time of the last answer.
func TestAsOfBetweenTwoTries(t *testing.T) {
	virtual(t, func(w *world) {
		st := &fakeStore{Store: w.open()}
		asked := 0
		st.observe = func(context.Context, string, *store.Known) (store.Known, error) {
			if asked++; asked == 1 {
				return store.Known{Leader: store.Leader{Value: "a", Revision: 1}, AsOf: time.Now()}, nil
			}
			return store.Known{AsOf: time.Now()}, errors.New("never seen before")
		}
		f := w.follower(st, nil)
		f.Start()
		w.at(10 * ttl)
		require.Equal(w, w.began, f.AsOf())
	})
}

// A first state without a leader is no change of leader.
func TestFirstStateWithoutALeaderIsNoChange(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		f := w.follower(w.open(), &leadership.Options{Logger: log.logger(), Hooks: &leadership.Hooks{
			LeaderChanged: func(_ string, leader leadership.Leader) { fmt.Fprintf(&log, "hook: %q\n", leader.Value) },
		}})
		f.Start()
		w.at(time.Second)
		require.Contains(w, log.String(), `msg="no leader yet"`)
		require.NotContains(w, log.String(), "changed")
		require.NotContains(w, log.String(), "hook: ")
		term := w.lead(w.open(), "a")
		w.at(2 * time.Second)
		require.NoError(w, term.Withdraw(background))
		w.at(3 * time.Second)
		require.Contains(w, log.String(), `msg="leader changed" election=database/primary leader=a`)
		require.Contains(w, log.String(), `msg="leader gone"`)
		require.Contains(w, log.String(), `hook: "a"`)
		require.Contains(w, log.String(), `hook: ""`)
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
		f.Start()
		w.at(5 * renew)
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

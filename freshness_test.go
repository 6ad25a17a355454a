package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
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

func TestAsOfWhileTheFirstAnswerIsAwaited(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		f := w.follower(st, nil)
		st.Faults().Cut()
		f.Start()
		w.at(ttl / 2)
		require.Zero(w, f.AsOf())
		_, led := f.Leader()
		require.False(w, led)
		st.Faults().Heal()
		synctest.Wait()
		require.Equal(w, w.began.Add(ttl/2), f.AsOf(), "the answer came late: it asked again at once")
		w.at(3 * renew)
		require.Equal(w, w.began.Add(3*renew), f.AsOf(), "the next confirmation")
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

// When the leader changes, AsOf does not go back, and moves on with the next confirmation.
func TestAsOfWhenTheLeaderChanges(t *testing.T) {
	virtual(t, func(w *world) {
		term := w.lead(w.open(), "a")
		asked, silent := w.follower(w.open(), nil), w.follower(w.open(), nil)
		asked.Start()
		silent.Start()
		w.at(101*renew + time.Second) // between two confirmations
		before := asked.AsOf()
		require.Equal(w, w.began.Add(101*renew), before)
		require.NoError(w, term.Resign(background))
		synctest.Wait()
		_, led := asked.Leader()
		require.False(w, led)
		require.False(w, asked.AsOf().Before(before), "it has gone back by %v", before.Sub(asked.AsOf()))
		w.at(102*renew + time.Second)
		require.Equal(w, w.began.Add(102*renew), silent.AsOf(), "one who was never asked before, with the next confirmation")
	})
}

// The known leader was right at the time of a confirmation, also over a slow link: a confirmation's answer must not
// overtake the news of an earlier change.
func TestAsOfOnASlowLine(t *testing.T) {
	virtual(t, func(w *world) {
		term := w.lead(w.open(), "a")
		st := w.open()
		f := w.follower(st, nil)
		f.Start()
		synctest.Wait()
		st.Faults().Delay(time.Second) // renewals are sent at 3 s, 8 s, 13 s, ... and confirmed two seconds later
		change := 7*time.Second + 500*time.Millisecond
		w.at(change)
		require.NoError(w, term.Resign(background))
		for w.now() < 5*ttl {
			w.at(w.now() + 10*time.Millisecond)
			if _, led := f.Leader(); led {
				asOf := f.AsOf().Sub(w.began)
				require.LessOrEqual(w, asOf, change, "at %v it knows a leader as of %v, who had gone by then", w.now(), asOf)
			}
		}
		_, led := f.Leader()
		require.False(w, led)
	})
}

// A follower reports itself whether its knowledge is fresh. It logs once that its store is silent, and once that it is
// back.
func TestFresh(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		st := w.open()
		var log journal
		f := w.follower(st, &leadership.Options{Logger: log.logger()})
		require.False(w, f.Fresh(), "nothing is known")
		f.Start()
		synctest.Wait()
		w.at(5 * ttl)
		require.True(w, f.Fresh())
		said := func(silent, back int) {
			w.Helper()
			require.Equal(w, silent, strings.Count(log.String(), "has not been confirmed for a TTL"), "%s", log.String())
			require.Equal(w, back, strings.Count(log.String(), "is confirmed again"), "%s", log.String())
		}
		last := 5 * ttl // the last renewal
		for outage := range 2 {
			st.Faults().Cut()
			w.at(last + ttl - 1)
			require.True(w, f.Fresh())
			said(outage, outage)
			w.at(last + ttl)
			require.False(w, f.Fresh())
			said(outage+1, outage)
			w.at(last + 10*ttl)
			require.False(w, f.Fresh())
			said(outage+1, outage)
			st.Faults().Heal()
			w.at(last + 10*ttl + renew + ttl/8)
			require.True(w, f.Fresh())
			said(outage+1, outage+1)
			last += 20 * ttl
			w.at(last)
			said(outage+1, outage+1)
		}
		f.Stop()
		w.at(last + 2*ttl)
		require.False(w, f.Fresh(), "it has ended")
		said(2, 2)
	})
}

// While the follower waits for the first answer, no knowledge can be old. It logs instead that it has no answer.
func TestSilenceBeforeTheFirstAnswer(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		var log journal
		f := w.follower(st, &leadership.Options{Logger: log.logger()})
		st.Faults().Cut()
		f.Start()
		w.at(10 * ttl)
		require.NotContains(w, log.String(), "has not been confirmed for a TTL")
		require.Contains(w, log.String(), "no answer for 10s")
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
		require.NoError(w, term.Resign(background))
		w.at(3 * time.Second)
		require.Contains(w, log.String(), `msg="leader changed" election=database/primary leader=a`)
		require.Contains(w, log.String(), `msg="leader gone"`)
		require.Contains(w, log.String(), `hook: "a"`)
		require.Contains(w, log.String(), `hook: ""`)
	})
}

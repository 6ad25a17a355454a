package leadership_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// When Resign or Stop returns, the term's context has ended, also if another call is ending the term.
func TestContextHasEndedWhenResignReturns(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for range 30 {
			c, err := leadership.NewCandidate(st, election, "a", nil)
			require.NoError(w, err)
			term := w.campaign(c)
			var late atomic.Int32
			var calls sync.WaitGroup
			for _, end := range []func(){c.Resign, c.Resign, c.Stop, c.Stop} {
				calls.Go(func() {
					end()
					if term.Context().Err() == nil {
						late.Add(1)
					}
				})
			}
			calls.Wait()
			require.Zero(w, late.Load())
			require.NoError(w, term.Resign(background))
		}
	})
}

// TermEnded is the last hook of a term, also if the term ends while a renewal is being reported.
func TestTermEndedIsTheLastHook(t *testing.T) {
	virtual(t, func(w *world) {
		var last atomic.Value
		hooks := &leadership.Hooks{
			Renewed:   func(string, uint64, time.Duration) { last.Store("renewed") },
			TermEnded: func(string, uint64, error) { last.Store("ended") },
		}
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.Options{Hooks: hooks})
		for range 30 {
			term := w.campaign(c)
			time.Sleep(time.Nanosecond) // so that the renewal is later than the one before
			go lease.Renew(store.Now(), valid)
			go c.Resign()
			synctest.Wait()
			require.Equal(w, "ended", last.Load())
			require.NoError(w, term.Resign(background))
		}
	})
}

// A term that its first hook gives back: Done waits for that hook, and for the one that follows.
func TestDoneWaitsForTheFirstHook(t *testing.T) {
	virtual(t, func(w *world) {
		released := make(chan struct{})
		var ended atomic.Bool
		var c *leadership.Candidate
		c = w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
			TermBegan: func(string, uint64) {
				_ = c.Term().Resign(background)
				<-released
			},
			TermEnded: func(string, uint64, error) { ended.Store(true) },
		}})
		result := async(func() error { _, err := c.Campaign(background); return err })
		synctest.Wait()
		require.Empty(w, w.ballots())
		c.Stop()
		require.False(w, isDone(c), "Campaign has not returned")
		close(released)
		require.NoError(w, <-result)
		require.True(w, isDone(c))
		require.True(w, ended.Load())
	})
}

// What happens while a follower's callback runs is told when that has returned, but not what is over by then, and nothing
// after Stop.
func TestFollowerCallbackThatMissesSomething(t *testing.T) {
	for _, stop := range []bool{false, true} {
		virtual(t, func(w *world) {
			released := make(chan struct{})
			var gone, led atomic.Int32
			f := w.follower(w.open(), nil)
			f.OnLeaderGone(func() { gone.Add(1); <-released })
			f.OnNewLeader(func(leadership.Leader) { led.Add(1) })
			f.Start()
			synctest.Wait()
			term := w.lead(w.open(), "a")
			synctest.Wait()
			if stop {
				f.Stop()
			} else {
				require.NoError(w, term.Resign(background))
			}
			synctest.Wait()
			close(released)
			synctest.Wait()
			require.EqualValues(w, 1, gone.Load())
			require.Zero(w, led.Load())
		})
	}
}

// FollowElection shows the present state at once, if the follower knows it already.
func TestFollowElectionOfAKnownLeader(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		f := w.follower(w.open(), nil)
		f.Start()
		synctest.Wait()
		values, _ := f.FollowElection()
		require.Len(w, values, 1)
		require.Equal(w, "a", <-values)
	})
}

package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// OnTermEnded is called once for each term of Run and RunForElection, with its cause, after the work has stopped and
// before the ballot is given back.
func TestTermEndedCallback(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, c *leadership.Candidate, cancel context.CancelFunc)
		cause error
	}{
		"resigned":   {func(_ *world, c *leadership.Candidate, _ context.CancelFunc) { c.Resign() }, leadership.ErrResigned},
		"stopped":    {func(_ *world, c *leadership.Candidate, _ context.CancelFunc) { c.Stop() }, leadership.ErrStopped},
		"context":    {func(_ *world, _ *leadership.Candidate, cancel context.CancelFunc) { cancel() }, leadership.ErrStopped},
		"lease over": {func(w *world, _ *leadership.Candidate, _ context.CancelFunc) { w.stores[1].Faults().Cut() }, leadership.ErrLost},
		"removed":    {func(w *world, _ *leadership.Candidate, _ context.CancelFunc) { w.service.Clear(election) }, leadership.ErrLost},
	} {
		virtualRun(t, name, func(w *world) {
			var happened diary
			c := w.candidate(w.open(), "a", nil)
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			var served *leadership.Term
			c.OnTermEnded(func(term *leadership.Term, cause error) {
				if happened.has("ended") { // a later term
					return
				}
				require.Same(w, served, term)
				require.ErrorIs(w, cause, test.cause)
				require.Equal(w, context.Cause(term.Context()), cause)
				require.False(w, c.IsLeader())
				if name == "resigned" || name == "stopped" || name == "context" {
					require.Equal(w, []string{"a"}, w.ballots(), "the ballot still stands")
				}
				happened.add("ended")
			})
			c.OnTermEnded(func(*leadership.Term, error) { happened.add("ended, too") })
			c.OnTakeoverFailed(func(error) { happened.add("failed") })
			go func() {
				_ = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
					served = term
					<-ctx.Done()
					time.Sleep(time.Second)
					happened.add("stopped working")
					return nil
				})
			}()
			w.at(time.Second)
			test.end(w, c, cancel)
			w.at(time.Second + valid)
			w.stores[1].Faults().Heal()
			synctest.Wait()
			require.Equal(w, []string{"stopped working", "failed", "ended", "ended, too"}, happened.all()[:4])
		})
	}
}

// While the callback runs, the session is renewed and no other candidate leads.
func TestTermEndedCallbackKeepsTheBallot(t *testing.T) {
	for name, drive := range drives {
		virtualRun(t, name, func(w *world) {
			a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
			a.OnTermEnded(func(*leadership.Term, error) { time.Sleep(10 * ttl) })
			drive(a)
			synctest.Wait()
			drive(b)
			w.at(time.Second)
			a.Resign()
			w.at(time.Second + 10*ttl - 1)
			require.False(w, a.IsLeader())
			require.False(w, b.IsLeader())
			w.at(time.Second + 10*ttl)
			require.True(w, b.IsLeader())
		})
	}
}

// For a candidate that never led, no end of a term is reported.
func TestTermEndedCallbackIsNotForThoseWhoNeverLed(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		c.OnTermEnded(func(*leadership.Term, error) { t.Error("it never led") })
		c.RunForElection()
		w.at(ttl)
		halt(c)
	})
}

// Term returns the token to the users of RunForElection, for as long as the candidate leads.
func TestTermOfTheCandidate(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		require.Nil(w, c.Term())
		c.RunForElection()
		synctest.Wait()
		first := c.Term()
		require.NotNil(w, first)
		list, err := w.observer.Ballots(background, election)
		require.NoError(w, err)
		require.Equal(w, list[0].Token, first.Token())
		c.Resign()
		require.Nil(w, c.Term())
		w.until(c.IsLeader)
		require.Greater(w, c.Term().Token(), first.Token())
		st.Faults().Cut()
		w.at(w.now() + valid)
		require.Nil(w, c.Term())
	})
	virtual(t, func(w *world) { // the lease is over, and nothing of ours has run
		st := w.open()
		resumed := make(chan struct{})
		c := w.candidate(changing(st, func(b *fakeBallot) { b.frozen = resumed }), "a", nil)
		w.Cleanup(func() { close(resumed) })
		w.campaign(c)
		st.Faults().Cut()
		w.at(valid)
		require.Nil(w, c.Term())
	})
}

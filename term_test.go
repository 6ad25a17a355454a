package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestTermDeadlineMovesWithRenewals(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		term := w.campaign(w.candidate(st, "a", nil))
		is := func(deadline, remaining time.Duration) {
			w.Helper()
			require.Equal(w, w.began.Add(deadline), term.Deadline())
			require.Equal(w, remaining, term.Remaining())
		}
		is(valid, valid)
		w.at(2 * time.Second)
		is(valid, valid-2*time.Second)
		w.at(renew)
		is(renew+valid, valid)
		w.at(2 * renew)
		is(2*renew+valid, valid)
		st.Faults().Cut()
		w.at(2*renew + valid - 1)
		is(2*renew+valid, 1)
		w.at(2*renew + valid)
		require.Zero(w, term.Deadline(), "the term is over")
		require.Zero(w, term.Remaining())
		st.Faults().Heal()
		w.at(2*renew + valid + ttl)
		require.Zero(w, term.Deadline(), "and no renewal revives it")
		require.Zero(w, term.Remaining())
	})
}

func TestTermContextSaysWhyItEnded(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, c *leadership.Candidate, term *leadership.Term, st *fakeStore)
		cause error
	}{
		"withdrawn": {func(w *world, _ *leadership.Candidate, term *leadership.Term, _ *fakeStore) {
			require.NoError(w, term.Withdraw(background))
		}, leadership.ErrResigned},
		"resigned by the term": {func(w *world, _ *leadership.Candidate, term *leadership.Term, _ *fakeStore) {
			term.Resign()
			require.Equal(w, []string{"a"}, w.ballots(), "the ballot stands until it is given back")
		}, leadership.ErrResigned},
		"resigned by the candidate": {func(w *world, c *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			c.Resign()
		}, leadership.ErrResigned},
		"stopped": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			c.Stop()
		}, leadership.ErrStopped},
		"ballot removed": {func(w *world, _ *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			w.service.Clear(election)
		}, leadership.ErrLost},
		"store closed": {func(w *world, _ *leadership.Candidate, _ *leadership.Term, st *fakeStore) {
			require.NoError(w, st.Close())
		}, leadership.ErrLost},
	} {
		virtualRun(t, name, func(w *world) {
			st := &fakeStore{Store: w.open()}
			c := w.candidate(st, "a", nil)
			term := w.campaign(c)
			require.NoError(w, context.Cause(term.Context()))
			require.True(w, c.IsLeader())
			test.end(w, c, term, st)
			synctest.Wait()
			require.ErrorIs(w, context.Cause(term.Context()), test.cause)
			require.False(w, c.IsLeader())
			require.Zero(w, term.Deadline())
			require.Zero(w, term.Remaining())
			require.NoError(w, term.Withdraw(background))
		})
	}
}

func TestTermWithdrawEndsWithItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		term := w.campaign(c)
		st.Faults().Cut()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(w, term.Withdraw(ctx), context.DeadlineExceeded)
		require.Equal(w, time.Second, w.now())
		require.False(w, c.IsLeader())
		require.Equal(w, []string{"a"}, w.ballots())
		st.Faults().Heal()
		synctest.Wait()
		require.Empty(w, w.ballots(), "the store went on in the background")
	})
}

// Resign returns an error if it could not confirm that the ballot was removed. So does a second call.
func TestTermWithdrawAgainAfterItFailed(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		term := w.campaign(w.candidate(st, "a", nil))
		st.Faults().Cut()
		for range 2 {
			ctx, cancel := context.WithTimeout(background, time.Second)
			err := term.Withdraw(ctx)
			cancel()
			require.Equal(w, []string{"a"}, w.ballots())
			require.Error(w, err, "the ballot still stands")
		}
	})
}

func TestTermWithdrawAgainSendsNothing(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		term := w.campaign(w.candidate(st, "a", nil))
		require.NoError(w, term.Withdraw(background))
		synctest.Wait() // its watches have gone
		sent := st.Faults().Requests()
		require.NoError(w, term.Withdraw(background))
		require.Equal(w, sent, st.Faults().Requests())
	})
}

// A second Resign, after the candidate has stood again, leaves the newer ballot alone.
func TestTermWithdrawLeavesALaterTermAlone(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		old := w.campaign(c)
		st.Faults().LoseReplies()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.Error(w, old.Withdraw(ctx))
		st.Faults().Heal()
		w.campaign(c)
		require.NoError(w, old.Withdraw(background))
		synctest.Wait()
		require.True(w, c.IsLeader())
		require.Equal(w, []string{"a"}, w.ballots())
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrRunning, "the later term is not given back")
	})
}

// The same for Resign, from inside the leader's function.
func TestTermResignLeavesALaterTermAlone(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		var terms []*leadership.Term
		ended := make(chan error, 1)
		result := async(func() error {
			return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
				switch terms = append(terms, term); len(terms) {
				case 1:
					return nil
				case 2:
					terms[0].Resign()
					ended <- context.Cause(ctx)
				}
				return serve(ctx, term)
			})
		})
		require.NoError(w, <-ended, "resigning the first term has ended the second")
		require.True(w, c.IsLeader())
		halt(c)
		require.NoError(w, <-result)
	})
}

// The ballot of a term from Campaign stands until the caller's work has stopped and the caller calls Resign.
func TestTermKeepsItsBallotUntilItIsGivenBack(t *testing.T) {
	virtual(t, func(w *world) {
		fake := changing(w.open(), func(b *fakeBallot) { b.lease = store.NewLease(); b.lease.Renew(store.Now(), valid) })
		a, b := w.candidate(fake, "a", nil), w.candidate(w.open(), "b", nil)
		term := w.campaign(a)
		waiting := async(func() error { _, err := b.Campaign(background); return err })
		<-term.Context().Done() // the fake lease ended; the session below is renewed
		w.at(10 * ttl)
		require.True(w, pending(waiting))
		require.Equal(w, []string{"a", "b"}, w.ballots())
		require.NoError(w, term.Withdraw(background))
		require.NoError(w, <-waiting)
	})
}

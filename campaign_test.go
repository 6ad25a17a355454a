package leadership_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A context that ends after its Campaign has returned has no effect on this term or the next.
func TestCampaignContextHasNoEffectOnTheTerm(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		ctx, cancel := context.WithCancel(background)
		term, err := c.Campaign(ctx)
		require.NoError(w, err)
		cancel()
		w.at(ttl)
		require.True(w, c.IsLeader())
		require.NoError(w, term.Context().Err())
		require.NoError(w, term.Withdraw(background))
		w.campaign(c)
		require.True(w, c.IsLeader())
	})
}

var errChangedMind = errors.New("changed my mind")

func TestCampaignEndsWithItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		b := w.candidate(w.open(), "b", nil)
		ctx, cancel := context.WithCancelCause(background)
		waiting := async(func() error { _, err := b.Campaign(ctx); return err })
		require.True(w, pending(waiting))
		cancel(errChangedMind)
		require.ErrorIs(w, <-waiting, errChangedMind)
		require.Equal(w, []string{"a"}, w.ballots(), "the ballot is given back first")
		_, err := b.Campaign(ctx)
		require.ErrorIs(w, err, errChangedMind, "a context that has ended already")
		require.Equal(w, []string{"a"}, w.ballots())
	})
}

func TestCampaignEndsWithStop(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		b := w.candidate(w.open(), "b", nil)
		waiting := async(func() error { _, err := b.Campaign(background); return err })
		require.True(w, pending(waiting))
		halt(b)
		require.ErrorIs(w, <-waiting, leadership.ErrStopped)
		require.Equal(w, []string{"a"}, w.ballots())
		_, err := b.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrStopped)
	})
}

func TestCampaignEndsWhenItsBallotIsLost(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		b := w.candidate(w.open(), "b", nil)
		waiting := async(func() error { _, err := b.Campaign(background); return err })
		require.True(w, pending(waiting))
		w.service.Clear(election)
		require.ErrorIs(w, <-waiting, leadership.ErrLost)
		require.False(w, b.IsLeader())
		w.campaign(b)
		require.True(w, b.IsLeader(), "standing again is allowed")
	})
}

// Giving the ballot back takes no longer than one TTL.
func TestCampaignGivesTheBallotBackInTime(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		st := w.open()
		b := w.candidate(st, "b", nil)
		ctx, cancel := context.WithCancelCause(background)
		waiting := async(func() error { _, err := b.Campaign(ctx); return err })
		w.at(time.Second)
		st.Faults().Cut()
		cancel(errChangedMind)
		w.at(ttl - 1)
		require.True(w, pending(waiting))
		require.Equal(w, []string{"a", "b"}, w.ballots())
		w.at(time.Second + ttl - 1)
		require.True(w, pending(waiting))
		w.at(time.Second + ttl)
		require.ErrorIs(w, <-waiting, errChangedMind)
	})
}

func TestCampaignRefusesASecondOne(t *testing.T) {
	virtual(t, func(w *world) {
		term := w.lead(w.open(), "a")
		c := w.candidate(w.open(), "b", nil)
		var second *leadership.Term
		waiting := async(func() (err error) { second, err = c.Campaign(background); return err })
		require.True(w, pending(waiting))
		refused := func() {
			w.Helper()
			_, err := c.Campaign(background)
			require.ErrorIs(w, err, leadership.ErrRunning)
			require.ErrorIs(w, c.Run(background, leadership.Lead), leadership.ErrRunning)
			elected, errs := c.RunForElection()
			require.ErrorIs(w, <-errs, leadership.ErrRunning)
			requireClosed(w, elected)
			requireClosed(w, errs)
		}
		refused() // while it waits
		require.NoError(w, term.Withdraw(background))
		require.NoError(w, <-waiting)
		refused() // while it leads
		w.service.Clear(election)
		synctest.Wait()
		require.False(w, c.IsLeader())
		refused() // while its term is over and its ballot still stands
		c.Resign()
		refused() // only the term's owner removes the ballot
		require.NoError(w, second.Withdraw(background))
		w.campaign(c)
		c.Stop()
		elected, errs := c.RunForElection()
		require.ErrorIs(w, <-errs, leadership.ErrStopped)
		requireClosed(w, elected)
	})
}

// Being first is not enough while the session is not confirmed.
func TestCampaignWaitsForTheLease(t *testing.T) {
	setUp := func(w *world) (c *leadership.Candidate, b *fakeBallot) {
		b = &fakeBallot{lease: store.NewLease(), lost: make(chan struct{})}
		st := changing(w.open(), func(made *fakeBallot) { b.Ballot, *made = made.Ballot, *b; made.Ballot = b.Ballot })
		return w.candidate(st, "a", nil), b
	}
	virtualRun(t, "until it is confirmed", func(w *world) {
		c, b := setUp(w)
		waiting := async(func() error { _, err := c.Campaign(background); return err })
		w.at(time.Second)
		b.lease.Renew(store.Now(), -time.Second) // too late to count
		require.True(w, pending(waiting))
		require.False(w, c.IsLeader())
		b.lease.Renew(store.Now(), valid)
		require.NoError(w, <-waiting)
		require.True(w, c.IsLeader())
	})
	virtualRun(t, "or the ballot is lost", func(w *world) {
		c, b := setUp(w)
		waiting := async(func() error { _, err := c.Campaign(background); return err })
		require.True(w, pending(waiting))
		close(b.lost)
		require.ErrorIs(w, <-waiting, leadership.ErrLost)
		require.False(w, c.IsLeader())
	})
	virtualRun(t, "or the context ends", func(w *world) {
		c, _ := setUp(w)
		ctx, cancel := context.WithTimeoutCause(background, time.Second, errChangedMind)
		defer cancel()
		_, err := c.Campaign(ctx)
		require.ErrorIs(w, err, errChangedMind)
		require.Equal(w, time.Second, w.now(), "no lease, nothing to wait for")
		synctest.Wait()
		require.Empty(w, w.ballots(), "the store went on by itself")
	})
}

// A ballot that might be left is logged, unless the store was closed: then the session has ended, and the ballot with
// it.
func TestCampaignSaysIfTheBallotMightBeLeft(t *testing.T) {
	for failure, logged := range map[error]bool{nil: false, store.ErrClosed: false, store.ErrUnknownOutcome: true} {
		virtual(t, func(w *world) {
			var log journal
			st := changing(w.open(), func(b *fakeBallot) {
				b.wait = func(context.Context) error { return store.ErrUnavailable }
				b.withdraw = func(ctx context.Context) error { return errors.Join(b.Ballot.Withdraw(ctx), failure) }
			})
			_, err := w.candidate(st, "a", log.heard(nil)).Campaign(background)
			require.ErrorIs(w, err, store.ErrUnavailable)
			require.Equal(w, logged, strings.Contains(log.String(), "could not confirm that the ballot was removed"), failure)
		})
	}
}

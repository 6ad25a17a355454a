package leadership_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// health is what a candidate's check finds.
type health struct {
	err    atomic.Pointer[error] // nil: it is fit
	checks atomic.Int32
	leads  atomic.Bool // the last check was told of a term
	hangs  atomic.Pointer[chan struct{}]
}

var errDisk = errors.New("the disk is full")

func (h *health) set(err error) {
	if err == nil {
		h.err.Store(nil)
		return
	}
	h.err.Store(&err)
}

func (h *health) options() *leadership.Options {
	return &leadership.Options{Fitness: &leadership.Fitness{
		Every: time.Second, Timeout: time.Second / 2, Fall: 3, Rise: 2,
		Check: func(ctx context.Context, term *leadership.Term) error {
			h.checks.Add(1)
			h.leads.Store(term != nil)
			if hangs := h.hangs.Load(); hangs != nil {
				<-*hangs
			}
			if err := h.err.Load(); err != nil {
				return *err
			}
			return nil
		},
	}}
}

// TestFitness: no ballot before Rise successes; Fall failures in a row end the term, and the ballot goes.
func TestFitness(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		h.set(errDisk)
		c := w.candidate(w.open(), "a", h.options())
		c.RunForElection()
		w.at(5*time.Second + 100*time.Millisecond)
		s := w.is(c, leadership.Unfit, 0)
		require.Equal(w, errDisk, s.Unfit)
		require.Empty(w, w.ballots())
		h.set(nil)
		w.at(6*time.Second + 100*time.Millisecond)
		require.Empty(w, w.ballots(), "one success is not enough")
		w.at(7*time.Second + 100*time.Millisecond)
		w.is(c, leadership.Leading, 7*time.Second)
		require.NoError(w, c.Status().Unfit)

		h.set(errDisk)
		w.at(9*time.Second + 100*time.Millisecond)
		require.True(w, h.leads.Load())
		require.True(w, c.IsLeader(), "two failures are not enough")
		require.Equal(w, errDisk, c.Status().Unfit)
		h.set(nil)
		w.at(10*time.Second + 100*time.Millisecond)
		h.set(errDisk)
		w.at(12*time.Second + 100*time.Millisecond)
		require.True(w, c.IsLeader(), "they were not in a row")
		term := c.Term()
		w.at(13*time.Second + 100*time.Millisecond)
		require.False(w, c.IsLeader())
		cause := context.Cause(term.Context())
		require.ErrorIs(w, cause, leadership.ErrUnfit)
		require.ErrorIs(w, cause, leadership.ErrResigned)
		require.ErrorIs(w, cause, errDisk)
		require.Empty(w, w.ballots())
		w.is(c, leadership.Unfit, c.Status().Since.Sub(w.began))
		h.set(nil)
		w.at(20 * time.Second)
		require.True(w, c.IsLeader())
	})
}

// TestUnfitWaiterGivesItsBallotBack, and stands again when it is fit.
func TestUnfitWaiterGivesItsBallotBack(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		w.lead(w.open(), "leader")
		c := w.candidate(w.open(), "a", h.options())
		c.RunForElection()
		w.at(2 * time.Second)
		w.is(c, leadership.Waiting, time.Second)
		h.set(errDisk)
		w.at(6 * time.Second)
		w.is(c, leadership.Unfit, c.Status().Since.Sub(w.began))
		require.Equal(w, []string{"leader"}, w.ballots())
		h.set(nil)
		w.at(10 * time.Second)
		require.Equal(w, []string{"leader", "a"}, w.ballots())

		h.set(errDisk)
		_, err := w.candidate(w.open(), "b", h.options()).Campaign(ended())
		require.ErrorIs(w, err, context.Canceled)
	})
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

// TestUnfitWhileFirstInLine: the check fails between the cast and the turn of the ballot, too seldom to make the candidate
// unfit. No term begins.
func TestUnfitWhileFirstInLine(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		leader := w.lead(w.open(), "leader")
		c := w.candidate(w.open(), "a", h.options())
		elected, _ := c.RunForElection()
		w.at(2*time.Second + 100*time.Millisecond)
		require.False(w, <-elected)
		h.set(errDisk)
		w.at(3*time.Second + 100*time.Millisecond)
		w.is(c, leadership.Waiting, time.Second)
		require.NoError(w, leader.Withdraw(background))
		w.at(3*time.Second + 200*time.Millisecond)
		require.False(w, c.IsLeader())
		require.Empty(w, elected)
		h.set(nil)
		w.until(c.IsLeader)
	})
}

// TestCheckThatHangs is a failure for each Every + Timeout: the term ends, one check is under way, and Done waits for it.
func TestCheckThatHangs(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		c := w.candidate(w.open(), "a", h.options())
		c.RunForElection()
		w.at(2*time.Second + 100*time.Millisecond)
		require.True(w, c.IsLeader())
		hangs := make(chan struct{})
		h.hangs.Store(&hangs)
		w.at(3*time.Second + 100*time.Millisecond)
		checks := h.checks.Load()
		w.at(3*time.Second + 3*1500*time.Millisecond)
		require.False(w, c.IsLeader())
		require.ErrorContains(w, c.Status().Unfit, "has not returned after")
		w.at(time.Minute)
		require.Equal(w, checks, h.checks.Load())
		c.Stop()
		synctest.Wait()
		require.False(w, isClosed(c.Done()))
		close(hangs)
		synctest.Wait()
		require.True(w, isClosed(c.Done()))
	})
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestCheckThatPanics is a failure.
func TestCheckThatPanics(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", &leadership.Options{Fitness: &leadership.Fitness{
			Check: func(context.Context, *leadership.Term) error { panic("on purpose") },
		}})
		c.RunForElection()
		w.at(ttl)
		w.is(c, leadership.Unfit, 0)
		require.ErrorContains(w, c.Status().Unfit, "on purpose")
	})
}

// TestFitnessOfCampaign: the checks go on until the caller gives the ballot back.
func TestFitnessOfCampaign(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		c := w.candidate(w.open(), "a", h.options())
		term := w.campaign(c)
		w.at(5 * time.Second)
		require.True(w, c.IsLeader())
		h.set(errDisk)
		w.at(10 * time.Second)
		require.ErrorIs(w, context.Cause(term.Context()), leadership.ErrUnfit)
		require.Equal(w, []string{"a"}, w.ballots(), "its caller gives the ballot back")
		require.NoError(w, term.Withdraw(background))
		checks := h.checks.Load()
		w.at(20 * time.Second)
		require.Equal(w, checks, h.checks.Load())
	})
}

func TestFitnessIsChecked(t *testing.T) {
	for _, f := range []leadership.Fitness{
		{}, {Check: (&health{}).options().Fitness.Check, Every: -1}, {Check: (&health{}).options().Fitness.Check, Fall: -1},
		{Check: (&health{}).options().Fitness.Check, Rise: -1}, {Check: (&health{}).options().Fitness.Check, Timeout: -1},
	} {
		_, err := leadership.NewCandidate(&fakeStore{}, election, "a", &leadership.Options{Fitness: &f})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "fitness")
	}
}

// TestOneCheckAtATime, also if an earlier Campaign has ended while its check hung.
func TestOneCheckAtATime(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		hangs := make(chan struct{})
		h.hangs.Store(&hangs)
		c := w.candidate(w.open(), "a", h.options())
		for range 100 {
			ctx, cancel := context.WithTimeout(background, time.Millisecond)
			_, err := c.Campaign(ctx)
			require.ErrorIs(w, err, context.DeadlineExceeded)
			cancel()
		}
		synctest.Wait()
		require.EqualValues(w, 1, h.checks.Load())
		close(hangs)
		h.hangs.Store(nil)
		require.NoError(w, w.campaign(c).Withdraw(background))
	})
}

package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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

func (h *health) options() *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Fitness: &leadership.Fitness{
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
		var waited context.Context
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.wait = func(ctx context.Context) error { waited = ctx; return b.Ballot.Wait(ctx) }
		}), "a", h.options())
		run(c, leadership.Lead)
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
		require.Error(w, waited.Err(), "Run would keep one of each ballot")

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
		term := termOf(c)
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

// TestUnfitWaiterWithdrawsItsBallot, and stands again when it is fit.
func TestUnfitWaiterWithdrawsItsBallot(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		w.lead(w.open(), "leader")
		c := w.candidate(w.open(), "a", h.options())
		run(c, leadership.Lead)
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

// TestUnfitWhileFirstInLine: the check fails between the cast and the turn of the ballot, too seldom to make the candidate
// unfit. No term begins.
func TestUnfitWhileFirstInLine(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		leader := w.lead(w.open(), "leader")
		c := w.candidate(w.open(), "a", h.options())
		run(c, leadership.Lead)
		w.at(2*time.Second + 100*time.Millisecond)
		h.set(errDisk)
		w.at(3*time.Second + 100*time.Millisecond)
		w.is(c, leadership.Waiting, time.Second)
		require.NoError(w, leader.Withdraw(background))
		w.at(3*time.Second + 200*time.Millisecond)
		require.False(w, c.IsLeader())
		require.Zero(w, c.Status().Led)
		h.set(nil)
		w.until(c.IsLeader)
	})
}

// TestCheckThatHangs: an earlier Campaign has ended while its check hung. There is no second check meanwhile, and Done waits.
func TestCheckThatHangs(t *testing.T) {
	virtual(t, func(w *world) {
		var h health
		hangs := make(chan struct{})
		h.hangs.Store(&hangs)
		c := w.candidate(w.open(), "a", h.options())
		for range 10 {
			ctx, cancel := context.WithTimeout(background, time.Millisecond)
			_, err := c.Campaign(ctx)
			require.ErrorIs(w, err, context.DeadlineExceeded)
			cancel()
		}
		require.EqualValues(w, 1, h.checks.Load())
		c.Stop()
		require.False(w, isDone(c))
		close(hangs)
		require.True(w, isDone(c))
	})
}

// TestFitnessOfCampaign: the checks go on until the caller withdraws the ballot.
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
		require.Equal(w, []string{"a"}, w.ballots(), "its caller withdraws the ballot")
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
		_, err := leadership.NewCandidate(&fakeStore{}, election, "a", &leadership.CandidateOptions{Fitness: &f})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "fitness")
	}
}

// A candidate is first in line on a link with a round trip of 0.7 TTL. Its session lives, but each answer comes too
// late for its lease. After one TTL it gives its ballot back, reports that, and stands again at the back.
func TestFirstOnASlowLinkGivesWay(t *testing.T) {
	virtual(t, func(w *world) {
		var waits []time.Duration
		var log bytes.Buffer
		opts := trying(&waits, leadership.ErrNoLease)
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		leader := w.lead(w.open(), "leader")
		st := w.open()
		slow, next := w.candidate(st, "slow", opts), w.candidate(w.open(), "next", nil)
		result := run(slow, leadership.Lead)
		synctest.Wait()
		run(next, leadership.Lead)
		synctest.Wait()
		require.Equal(w, []string{"leader", "slow", "next"}, w.ballots())
		st.Faults().Delay(ttl * 35 / 100)
		w.at(ttl)
		require.NoError(w, leader.Withdraw(background))
		for !next.IsLeader() {
			require.False(w, slow.IsLeader())
			require.Less(w, w.now(), 4*ttl, "the slow one keeps the other waiting")
			w.at(w.now() + ttl/100)
		}
		w.at(6 * ttl)
		require.True(w, next.IsLeader())
		require.Equal(w, []string{"next", "slow"}, w.ballots(), "it stands again at the back")
		require.Len(w, waits, 1, "it is told once")
		w.stops(slow, result)
		require.Equal(w, 1, bytes.Count(log.Bytes(), []byte("level=WARN")), "%s", log.String())
		require.NotContains(w, log.String(), "could not confirm that the ballot was removed")
	})
}

// The limit is one TTL, to the nanosecond. A lease that holds before that is a term.
func TestFirstWithoutALease(t *testing.T) {
	for name, confirmed := range map[string]time.Duration{"just in time": ttl - 1, "never": 10 * ttl} {
		virtualRun(t, name, func(w *world) {
			lease := store.NewLease()
			c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", nil)
			time.AfterFunc(confirmed, func() { lease.Renew(store.Now(), valid) })
			term, err := c.Campaign(background)
			if name == "never" {
				require.ErrorIs(w, err, leadership.ErrNoLease)
				require.Equal(w, ttl, w.now())
				require.Empty(w, w.ballots(), "the ballot is given back, with a context that has not ended")
				return
			}
			require.NoError(w, err)
			require.True(w, c.IsLeader())
			require.NoError(w, term.Withdraw(background))
		})
	}
}

// prefers returns options of a candidate that gives way to those with one of the values.
func prefers(values ...string) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{GiveWayTo: values}
}

// TestGiveWay: the preferred candidate leads whenever it stands.
func TestGiveWay(t *testing.T) {
	virtual(t, func(w *world) {
		leader := w.lead(w.open(), "leader")
		second := w.candidate(w.open(), "second", prefers("first"))
		run(second, leadership.Lead)
		w.until(func() bool { return len(w.ballots()) == 2 })
		first := w.candidate(w.open(), "first", nil)
		run(first, leadership.Lead)
		w.until(func() bool { return len(w.ballots()) == 3 })
		require.NoError(w, leader.Withdraw(background))
		w.until(first.IsLeader)
		w.until(func() bool { return len(w.ballots()) == 2 })
		require.Equal(w, []string{"first", "second"}, w.ballots())
		halt(first)
		w.until(second.IsLeader)
	})
}

// TestGiveWayToEachOther: two that prefer each other come to an end, with a leader.
func TestGiveWayToEachOther(t *testing.T) {
	virtual(t, func(w *world) {
		leader := w.lead(w.open(), "leader")
		a, b := w.candidate(w.open(), "a", prefers("b")), w.candidate(w.open(), "b", prefers("a"))
		run(a, leadership.Lead)
		run(b, leadership.Lead)
		w.until(func() bool { return len(w.ballots()) == 3 })
		require.NoError(w, leader.Withdraw(background))
		w.until(func() bool { return a.IsLeader() || b.IsLeader() })
		time.Sleep(ttl)
		require.True(w, a.IsLeader() || b.IsLeader())
		led := a
		if b.IsLeader() {
			led = b
		}
		led.Resign() // it may give way again
		w.until(func() bool { return a.IsLeader() || b.IsLeader() })
	})
}

// TestGiveWayOfCampaign returns ErrGaveWay, and the next call leads.
func TestGiveWayOfCampaign(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", prefers("b", "a"))
		term := w.campaign(c) // its own value is no reason
		require.NoError(w, term.Withdraw(background))

		leader := w.lead(w.open(), "leader")
		elected := async(func() error { _, err := c.Campaign(background); return err })
		w.until(func() bool { return len(w.ballots()) == 2 })
		b := w.candidate(w.open(), "b", nil)
		run(b, leadership.Lead)
		w.until(func() bool { return len(w.ballots()) == 3 })
		require.NoError(w, leader.Withdraw(background))
		require.ErrorIs(w, <-elected, leadership.ErrGaveWay)
		w.until(b.IsLeader)
		require.Equal(w, []string{"b"}, w.ballots())
	})
}

// TestGiveWayIsNotKnown: a queue that can't be read keeps no candidate from leading.
func TestGiveWayIsNotKnown(t *testing.T) {
	virtual(t, func(w *world) {
		began := time.Now()
		w.campaign(w.candidate(&silentQueue{w.open()}, "a", prefers("b")))
		require.Equal(w, ttl/4, time.Since(began))
	})
}

// TestAskedAgainBeforeATermBegins: what ends a ballot or a campaign after the ballot was first, and before its term begins,
// keeps the term from beginning.
func TestAskedAgainBeforeATermBegins(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *world, token uint64, cancel context.CancelFunc)
		want      error
	}{
		"removed": {func(w *world, _ uint64, _ context.CancelFunc) {
			require.NoError(w, w.observer.Clear(background, election))
			w.lead(w.open(), "next")
		}, leadership.ErrLost},
		"asked to resign": {func(w *world, token uint64, _ context.CancelFunc) {
			require.NoError(w, w.observer.RequestResignation(background, election, token))
		}, leadership.ErrRequested},
		"canceled": {func(_ *world, _ uint64, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		virtualRun(t, name, func(w *world) {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			st := &busyQueue{Store: w.open()}
			candidate := w.candidate(st, "a", prefers("b"))
			st.meanwhile = func(token uint64) {
				c.meanwhile(w, token, cancel)
				synctest.Wait() // the ballot's store has learnt of it
			}
			term, err := candidate.Campaign(ctx)
			require.ErrorIs(w, err, c.want)
			require.Nil(w, term)
			require.False(w, candidate.IsLeader())
		})
	}
}

// busyQueue is a store in which something happens after the queue was read, and before the reader has the answer.
type busyQueue struct {
	store.Store
	meanwhile func(token uint64)
}

func (s *busyQueue) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	queue, err := s.Store.Ballots(ctx, election)
	s.meanwhile(queue[0].Token)
	return queue, err
}

// silentQueue is a store that does not answer a read of the queue.
type silentQueue struct{ store.Store }

func (s *silentQueue) Ballots(ctx context.Context, _ string) ([]store.Standing, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

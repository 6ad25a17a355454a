package leadership_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// prefers returns options of a candidate that gives way to those with one of the values.
func prefers(values ...string) *leadership.Options {
	return &leadership.Options{GiveWay: func(queue []store.Standing) bool {
		for _, b := range queue[1:] {
			for _, value := range values {
				if b.Value == value {
					return true
				}
			}
		}
		return false
	}}
}

// TestGiveWay: the preferred candidate leads whenever it stands.
func TestGiveWay(t *testing.T) {
	virtual(t, func(w *world) {
		leader := w.lead(w.open(), "leader")
		second := w.candidate(w.open(), "second", prefers("first"))
		second.RunForElection()
		w.until(func() bool { return len(w.ballots()) == 2 })
		first := w.candidate(w.open(), "first", nil)
		first.RunForElection()
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
		a.RunForElection()
		b.RunForElection()
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
		asked := 0
		c := w.candidate(w.open(), "a", &leadership.Options{GiveWay: func(queue []store.Standing) bool {
			asked++
			require.Equal(w, "a", queue[0].Value)
			return true
		}})
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrGaveWay)
		require.Empty(w, w.ballots())
		term := w.campaign(c)
		require.Equal(w, 1, asked)
		require.NoError(w, term.Withdraw(background))
		_, err = c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrGaveWay, "it has led since")
	})
}

// TestGiveWayIsNotKnown: a queue that can't be read, and a function that panics, keep no candidate from leading.
func TestGiveWayIsNotKnown(t *testing.T) {
	virtual(t, func(w *world) {
		hangs := &silentQueue{w.open()}
		began := time.Now()
		c := w.candidate(hangs, "a", prefers("b"))
		term := w.campaign(c)
		require.Equal(w, ttl/4, time.Since(began))
		require.NoError(w, term.Withdraw(background))
		c = w.candidate(w.open(), "b", &leadership.Options{GiveWay: func([]store.Standing) bool { panic("on purpose") }})
		w.campaign(c)
	})
}

// silentQueue is a store that does not answer a read of the queue.
type silentQueue struct{ store.Store }

func (s *silentQueue) Ballots(ctx context.Context, _ string) ([]store.Standing, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

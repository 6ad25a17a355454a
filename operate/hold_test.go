package operate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func (w *world) hold() *operate.Hold {
	w.Helper()
	h, err := operate.NewHold(context.Background(), w.operator, election, "new disks, alice@db1")
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, h.Release(context.Background())) })
	return h
}

// TestHold: the leader stays; when it has gone there is none, until the hold is released.
func TestHold(t *testing.T) {
	virtual(t, 4, func(w *world) {
		list := w.settle()
		w.ledBy()
		h := w.hold()
		require.Len(w, h.Behind(), 3)
		queue := w.queue()
		require.Equal(w, list[0], queue[0], "the leader stays")
		reason, held := operate.Held(queue[1].Value)
		require.True(w, held)
		require.Equal(w, "new disks, alice@db1", reason)
		require.False(w, isClosed(h.First()))
		time.Sleep(10 * ttl)
		require.Empty(w, w.ledBy())

		w.all[list[0].Value].Resign()
		<-h.First()
		time.Sleep(10 * ttl)
		require.Empty(w, w.ledBy(), "no candidate begins a term")
		require.NoError(w, h.Err())

		released := time.Now()
		require.NoError(w, h.Release(context.Background()))
		synctest.Wait()
		require.Len(w, w.ledBy(), 1)
		require.Zero(w, time.Since(released))
		require.ErrorIs(w, h.Err(), operate.ErrReleased)
		require.NoError(w, h.Release(context.Background()))
	})
}

// TestStepDownOfAHeldElection is refused: nobody would lead.
func TestStepDownOfAHeldElection(t *testing.T) {
	virtual(t, 3, func(w *world) {
		list := w.settle()
		w.hold()
		_, err := operate.StepDown(context.Background(), w.operator, election, list[0].Token)
		require.ErrorIs(w, err, operate.ErrHeld)
		time.Sleep(ttl)
		require.Equal(w, list[0], w.queue()[0], "it was not asked")
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

// TestHoldIsCutOff: it ends with its lease, although the store learns nothing of its ballot.
func TestHoldIsCutOff(t *testing.T) {
	for _, first := range []bool{false, true} {
		virtual(t, 2, func(w *world) {
			list := w.settle()
			st := w.open()
			h, err := operate.NewHold(context.Background(), st, election, "new disks")
			require.NoError(w, err)
			if first {
				w.all[list[0].Value].Resign()
				<-h.First()
			}
			began := time.Now()
			st.Faults().Cut()
			<-h.Ended()
			require.Less(w, time.Since(began), ttl, "before another candidate can lead")
			time.Sleep(ttl)
			require.ErrorIs(w, h.Err(), store.ErrLost)
			st.Faults().Heal()
			require.NoError(w, h.Release(context.Background()))
		})
	}
}

// TestHoldBehindAWaiterThatHangs: it is made after a TTL, and says who is ahead.
func TestHoldBehindAWaiterThatHangs(t *testing.T) {
	virtual(t, 1, func(w *world) {
		st := w.open()
		ballot, err := st.Cast(context.Background(), election, "hangs")
		require.NoError(w, err)
		began := time.Now()
		h := w.hold()
		require.GreaterOrEqual(w, time.Since(began), ttl)
		require.Len(w, h.Ahead(), 1)
		require.Equal(w, "hangs", h.Ahead()[0].Value)
		require.NoError(w, ballot.Withdraw(context.Background()))
	})
}

// TestHoldIsReleasedFromElsewhere: an operator asks its ballot to resign, whether it is first or waits.
func TestHoldIsReleasedFromElsewhere(t *testing.T) {
	for _, first := range []bool{false, true} {
		virtual(t, 2, func(w *world) {
			list := w.settle()
			h := w.hold()
			if first {
				w.all[list[0].Value].Resign()
				<-h.First()
			}
			require.NoError(w, w.operator.RequestResignation(context.Background(), election, h.Token()))
			<-h.Ended()
			require.ErrorIs(w, h.Err(), operate.ErrReleased)
			w.settle()
		})
	}
}

// TestHoldIsLost: an election without its hold goes on, and the hold says so.
func TestHoldIsLost(t *testing.T) {
	virtual(t, 2, func(w *world) {
		list := w.settle()
		h := w.hold()
		w.all[list[0].Value].Resign()
		<-h.First()
		w.ledBy()
		w.service.Delete(election, h.Token())
		<-h.Ended()
		require.ErrorIs(w, h.Err(), store.ErrLost)
		time.Sleep(time.Second) // the longest back-off of those that have given way
		synctest.Wait()
		require.Len(w, w.ledBy(), 1)
	})
}

// TestHoldOfAnElectionWithoutALeader: there is none until the release.
func TestHoldOfAnElectionWithoutALeader(t *testing.T) {
	virtual(t, 0, func(w *world) {
		h := w.hold()
		<-h.First()
		w.add("late")
		time.Sleep(10 * ttl)
		require.Empty(w, w.ledBy())
		require.NoError(w, h.Release(context.Background()))
		synctest.Wait()
		require.Equal(w, []string{"late"}, w.ledBy())
	})
}

// TestHoldIsRefused if a ballot waits ahead that takes no requests, and leaves no ballot.
func TestHoldIsRefused(t *testing.T) {
	virtual(t, 2, func(w *world) {
		list := w.settle()
		st := &changed{Store: w.operator, change: func(list []store.Standing) {
			if len(list) > 1 {
				list[1].Foreign = true
			}
		}}
		_, err := operate.NewHold(context.Background(), st, election, "new disks")
		require.ErrorIs(w, err, operate.ErrForeign)
		require.Equal(w, list, w.queue())
	})
}

// TestHeldElection is not held twice, and is not switched over: that would release the hold.
func TestHeldElection(t *testing.T) {
	virtual(t, 2, func(w *world) {
		list := w.settle()
		h := w.hold()
		_, err := operate.NewHold(context.Background(), w.operator, election, "again")
		require.ErrorIs(w, err, operate.ErrHeld)
		require.ErrorContains(w, err, "new disks, alice@db1")
		for len(w.queue()) < 3 {
			time.Sleep(time.Millisecond)
		}
		_, err = operate.SwitchOver(context.Background(), w.operator, election, w.queue()[2].Token)
		require.ErrorIs(w, err, operate.ErrHeld)
		require.NoError(w, h.Err())
		require.Equal(w, list[0].Token, w.queue()[0].Token)
		w.all[list[0].Value].Resign()
		<-h.First()
		_, err = operate.NewHold(context.Background(), w.operator, election, "again")
		require.ErrorIs(w, err, operate.ErrHeld, "it is first in line")
	})
}

// TestHoldDuringATakeover: the candidate that takes over is the leader, and stays.
func TestHoldDuringATakeover(t *testing.T) {
	virtual(t, 0, func(w *world) {
		st := w.open()
		ballot, err := st.Cast(context.Background(), election, "taking over")
		require.NoError(w, err)
		require.NoError(w, ballot.Wait(context.Background()))
		h := w.hold()
		require.Empty(w, h.Behind())
		_, err = ballot.Acknowledge(context.Background(), "leads")
		require.NoError(w, err)
		require.False(w, isClosed(ballot.ResignationRequested()))
		require.NoError(w, ballot.Withdraw(context.Background()))
		<-h.First()
	})
}

// TestSwitchOverToAHold is refused: a hold never leads, so the leader must not be asked.
func TestSwitchOverToAHold(t *testing.T) {
	virtual(t, 2, func(w *world) {
		list := w.settle()
		h := w.hold()
		ctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		_, err := operate.SwitchOver(ctx, w.operator, election, h.Token())
		require.ErrorIs(w, err, operate.ErrHeld)
		require.Equal(w, list[0], w.queue()[0], "the leader stays, and was not asked")
	})
}

// A value that is no hold's has no reason, and not itself as one.
func TestHeld(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "db1:5432", "leadership hold", "\x00"} {
		reason, held := operate.Held(value)
		require.False(t, held, value)
		require.Empty(t, reason, value)
	}
}

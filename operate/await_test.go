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

// TestWaiterGoesWhileTheLeaderHangs: the leader is asked and does not resign, and the target goes. No change of the
// leader tells that.
func TestWaiterGoesWhileTheLeaderHangs(t *testing.T) {
	virtual(t, 0, func(w *world) {
		leader, waiter := w.open(), w.open()
		a, err := leader.Cast(context.Background(), election, "a")
		require.NoError(t, err)
		require.NoError(t, a.Wait(context.Background()))
		_, err = a.Acknowledge(context.Background(), "a")
		require.NoError(t, err)
		b, err := waiter.Cast(context.Background(), election, "b")
		require.NoError(t, err)
		ended := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := operate.SwitchOver(context.Background(), w.operator, election, b.Token())
			ended <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, b.Withdraw(context.Background()))
		err = <-ended
		require.ErrorIs(t, err, operate.ErrNotDone)
		require.ErrorContains(t, err, "has gone")
		require.Less(t, time.Since(began), 2*ttl)
	})
}

// TestStoreIsClosedMeanwhile: an error that trying again can't cure ends the wait at once.
func TestStoreIsClosedMeanwhile(t *testing.T) {
	virtual(t, 0, func(w *world) {
		a, err := w.open().Cast(context.Background(), election, "a")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := operate.StepDown(ctx, w.operator, election, a.Token())
			ended <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, w.operator.Close())
		require.ErrorIs(t, <-ended, store.ErrClosed)
		require.NoError(t, ctx.Err())
	})
}

// unavailable is a store whose reads of queues fail at once, for a while.
type unavailable struct {
	store.Store
	reads int
}

func (u *unavailable) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if u.reads++; u.reads > 2 && u.reads <= 12 { // not those before the request
		return nil, store.ErrUnavailable
	}
	return u.Store.Ballots(ctx, election)
}

// TestStoreIsUnavailableMeanwhile: the wait goes on, and does not ask all the time.
func TestStoreIsUnavailableMeanwhile(t *testing.T) {
	virtual(t, 2, func(w *world) {
		began := time.Now()
		_, err := operate.StepDown(context.Background(), &unavailable{Store: w.operator}, election, w.settle()[0].Token)
		require.NoError(w, err)
		require.GreaterOrEqual(w, time.Since(began), time.Second)
	})
}

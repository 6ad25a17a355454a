package leadership_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// InJeopardy is called when renewals are overdue, once until the next renewal.
func TestInJeopardy(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		st := w.open()
		c := w.candidate(st, "a", &leadership.Options{Hooks: keeping(w, &happened)})
		c.RunForElection()
		synctest.Wait()
		require.Len(w, happened.all(), 2)
		jeopardy := func(from time.Duration) {
			st.Faults().Cut()
			w.at(from + valid*2/3)
			require.False(w, happened.has("in jeopardy 1"))
			w.at(from + valid - 10*time.Millisecond)
			require.Equal(w, []string{"in jeopardy 1"}, happened.all())
		}
		happened.entries = nil
		jeopardy(0)
		st.Faults().Heal()
		w.at(valid)
		require.True(w, c.IsLeader())
		require.Equal(w, []string{"in jeopardy 1"}, happened.all())
		happened.entries = nil
		jeopardy(renew) // the renewal was sent at 3 s
		w.at(renew + valid)
		require.Equal(w, []string{
			"in jeopardy 1", "11s lost 1: ballot lost: the session was not renewed before its deadline",
		}, happened.all())
	})
}

// Over a slow link each renewal comes when less than a third of the lease is left: InJeopardy is not called. When
// renewals stop it is called, before the lease ends.
func TestSlowRenewalsAreNotOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		var renewals, jeopardies int
		st, err := memory.Open(w.service, &memory.Config{TTL: ttl, Renewed: func(time.Duration) { renewals++ }})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, st.Close()) })
		st.Faults().Delay(renew / 2) // the lease of 8 s is renewed when 1.4 s are left: after 0.6 s and two round trips of 3 s
		c := w.candidate(st, "a", &leadership.Options{Logger: log.logger(), Hooks: &leadership.Hooks{
			InJeopardy: func(string, uint64, time.Duration) { jeopardies++ },
		}})
		c.RunForElection()
		w.at(10 * ttl)
		require.True(w, c.IsLeader())
		require.Greater(w, renewals, 30)
		require.Zero(w, jeopardies)
		require.NotContains(w, log.String(), "renewals are overdue")
		st.Faults().Cut()
		w.until(func() bool { return !c.IsLeader() })
		require.Equal(w, 1, jeopardies)
		require.Contains(w, log.String(), "renewals are overdue")
	})
}

// A renewal comes at the moment when it is overdue. If the hook is called, less than a third of the lease was left.
func TestRenewedWhenItIsOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		var calls, wrong atomic.Int32
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.Options{
			Hooks: &leadership.Hooks{InJeopardy: func(_ string, _ uint64, remaining time.Duration) {
				calls.Add(1)
				if remaining >= valid/3 {
					wrong.Add(1)
				}
			}},
		})
		w.campaign(c)
		for range often(300) {
			<-lease.Last().Overdue
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.True(w, c.IsLeader())
		require.Zero(w, wrong.Load(), "of %d calls", calls.Load())
	})
}

// TestReportsWhileAHookHangsAreBounded: while a hook hangs, delays of renewals are told once, when it has returned.
func TestReportsWhileAHookHangsAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		var happened diary
		resumed := make(chan struct{})
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.Options{
			Hooks: &leadership.Hooks{InJeopardy: func(string, uint64, time.Duration) {
				happened.add("in jeopardy")
				<-resumed
			}},
		})
		require.NoError(w, w.campaign(c).Acknowledge(background))
		for range 100 {
			<-lease.Last().Overdue
			time.Sleep(time.Millisecond)
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.Equal(w, []string{"in jeopardy"}, happened.all())
		close(resumed)
		synctest.Wait()
		require.Equal(w, []string{"in jeopardy", "in jeopardy"}, happened.all())
	})
}

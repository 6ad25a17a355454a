package leadership_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
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
		require.Equal(w, []string{"in jeopardy 1", "7.99s renewed 1 in 4.99s"}, happened.all())
		happened.entries = nil
		jeopardy(renew) // the renewal was sent at 3 s
		w.at(renew + valid)
		require.Equal(w, []string{
			"in jeopardy 1", "11s lost 1: ballot lost: the session was not renewed before its deadline",
		}, happened.all())
	})
}

// A third of the lease is left when renewals are called overdue, less the quarter that passes between two checks of the lease.
func TestInJeopardySaysWhatIsLeft(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		var left []time.Duration
		st := w.open()
		c := w.candidate(st, "a", &leadership.Options{Logger: log.logger(), Hooks: &leadership.Hooks{
			InJeopardy: func(_ string, _ uint64, remaining time.Duration) { left = append(left, remaining) },
		}})
		c.RunForElection()
		synctest.Wait()
		st.Faults().Cut()
		w.at(valid)
		require.Len(w, left, 1)
		require.Less(w, left[0], valid/3)
		require.GreaterOrEqual(w, left[0], valid/4)
		require.Equal(w, 1, strings.Count(log.String(), "renewals are overdue"))
	})
}

// Over a slow link each renewal comes when less than a third of the lease is left: InJeopardy is not called. When
// renewals stop it is called, before the lease ends.
func TestSlowRenewalsAreNotOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		var renewals, jeopardies int
		st := w.open()
		st.Faults().Delay(renew / 2) // the lease of 8 s is renewed when 1.4 s are left: after 0.6 s and two round trips of 3 s
		c := w.candidate(st, "a", &leadership.Options{Logger: log.logger(), Hooks: &leadership.Hooks{
			Renewed:    func(string, uint64, time.Duration) { renewals++ },
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

// Renewals that come while the hook of one hangs are reported as one, the latest.
func TestRenewalsWhileTheHookHangs(t *testing.T) {
	virtual(t, func(w *world) {
		resumed := make(chan struct{})
		var latencies []time.Duration
		st := w.open()
		c := w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{
			Renewed: func(_ string, _ uint64, latency time.Duration) {
				latencies = append(latencies, latency)
				<-resumed
			},
		}})
		c.RunForElection()
		w.at(4 * renew)
		st.Faults().Delay(500 * time.Millisecond)
		w.at(5*renew + 2*time.Second)
		close(resumed)
		synctest.Wait()
		require.Equal(w, []time.Duration{0, time.Second}, latencies)
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
		for range 300 {
			<-lease.Last().Overdue
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.True(w, c.IsLeader())
		require.Zero(w, wrong.Load(), "of %d calls", calls.Load())
	})
}

// While a hook hangs, a renewal does not replace the report that it was overdue: each hook hears of its own.
func TestJeopardyIsToldThoughARenewalFollows(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		resumed := make(chan struct{})
		st := w.open()
		c := w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{
			Renewed: func(string, uint64, time.Duration) {
				<-resumed
				happened.add("renewed")
			},
			InJeopardy: func(string, uint64, time.Duration) { happened.add("in jeopardy") },
		}})
		require.NoError(w, w.campaign(c).Acknowledge(background))
		w.at(renew + time.Second) // the first renewal: its hook hangs
		st.Faults().Cut()
		w.at(renew + valid - time.Second)
		st.Faults().Heal()
		w.at(2 * ttl)
		close(resumed)
		synctest.Wait()
		require.Equal(w, []string{"renewed", "in jeopardy", "renewed"}, happened.all())
	})
}

// TestReportsWhileAHookHangsAreBounded: while a hook hangs, renewals and their delays come in turn. When it returns, the last
// of each is told.
func TestReportsWhileAHookHangsAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		var happened diary
		resumed := make(chan struct{})
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.Options{
			Hooks: &leadership.Hooks{
				Renewed: func(string, uint64, time.Duration) {
					happened.add("renewed")
					<-resumed
				},
				InJeopardy: func(string, uint64, time.Duration) { happened.add("in jeopardy") },
			},
		})
		require.NoError(w, w.campaign(c).Acknowledge(background))
		for range 100 {
			<-lease.Last().Overdue
			time.Sleep(time.Millisecond)
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.Equal(w, []string{"in jeopardy", "renewed"}, happened.all())
		close(resumed)
		synctest.Wait()
		require.Equal(w, []string{"in jeopardy", "renewed", "in jeopardy", "renewed"}, happened.all())
	})
}

package leadership_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// What happens to a candidate, in order, with the fields of each event.
func TestEvents(t *testing.T) {
	virtual(t, func(w *world) {
		told := make(chan leadership.Event, 100)
		st := w.open()
		c := w.candidate(failingFirst(st), "a", &leadership.CandidateOptions{Events: func(e leadership.Event) { told <- e }})
		run(c, func(ctx context.Context, term *leadership.Term) error {
			_ = serve(ctx, term)
			time.Sleep(time.Second) // the work winds down
			return nil
		})
		w.until(c.IsLeader)
		w.at(renew)
		token := termOf(c).Token()
		st.Faults().Delay(500 * time.Millisecond) // is no news
		w.at(2*renew + time.Second)
		st.Faults().Delay(0)
		require.NoError(w, w.observer.RequestResignation(background, election, token))
		w.until(func() bool { return len(told) > 6 && c.IsLeader() })
		halt(c)
		close(told)
		events, kinds := []leadership.Event{}, []string{}
		for e := range told {
			events = append(events, e)
		}
		for i, e := range events {
			kinds = append(kinds, e.Kind.String())
			require.Equal(w, election, e.Election)
			require.Equal(w, i > 0, e.Token != 0, "%v", e.Kind)
			require.Equal(w, e.Kind == leadership.Acknowledged, e.Leader.Revision > 0 && e.Leader.Value == "a", "%v", e.Kind)
		}
		require.Equal(w, []string{
			"attempt failed", "ballot cast", "term began", "acknowledged", "resignation requested", "term ended", "ballot withdrawn",
			"ballot cast", "term began", "acknowledged", "term ended", "ballot withdrawn",
		}, kinds)
		require.ErrorIs(w, events[0].Err, store.ErrUnavailable)
		require.Positive(w, events[0].RetryIn)
		require.Equal(w, token, events[6].Token)
		require.Greater(w, events[7].Token, token)
		require.ErrorIs(w, events[5].Err, leadership.ErrRequested)
		require.ErrorIs(w, events[10].Err, leadership.ErrStopped)
		require.Equal(w, time.Second, events[6].After)
	})
}

// A renewal is overdue once until it comes.
func TestRenewalOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		st := w.open()
		c := w.candidate(st, "a", telling(&happened))
		run(c, leadership.Lead)
		synctest.Wait()
		overdue := func(from time.Duration) {
			happened.clear()
			st.Faults().Cut()
			w.at(from + valid*2/3)
			require.Empty(w, happened.all())
			w.at(from + valid - 10*time.Millisecond)
			require.Equal(w, []string{"renewal overdue"}, happened.all())
		}
		overdue(0)
		st.Faults().Heal()
		w.at(valid)
		require.True(w, c.IsLeader())
		require.Equal(w, []string{"renewal overdue"}, happened.all())
		overdue(renew) // the renewal was sent at 3 s
		w.at(renew + valid)
		require.Equal(w, []string{"renewal overdue", "term ended: ballot lost: the session was not renewed before its deadline"}, happened.all())
	})
}

// Over a slow link each renewal comes when less than a third of the lease is left: no renewal is overdue. When
// renewals stop, one is, before the lease ends.
func TestSlowRenewalsAreNotOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		var renewals, overdue int
		st, err := memory.Open(w.service, &memory.Config{TTL: ttl, Renewed: func(time.Duration) { renewals++ }})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, st.Close()) })
		st.Faults().Delay(renew / 2) // the lease of 8 s is renewed when 1.4 s are left: after 0.6 s and two round trips of 3 s
		opts := on(leadership.RenewalOverdue, func(leadership.Event) { overdue++ })
		opts.Logger = log.logger()
		c := w.candidate(st, "a", opts)
		run(c, leadership.Lead)
		w.at(10 * ttl)
		require.True(w, c.IsLeader())
		require.Greater(w, renewals, 30)
		require.Zero(w, overdue)
		require.NotContains(w, log.String(), "renewals are overdue")
		st.Faults().Cut()
		w.until(func() bool { return !c.IsLeader() })
		require.Equal(w, 1, overdue)
		require.Contains(w, log.String(), "renewals are overdue")
	})
}

// leased returns a store whose ballots have a lease that only the test renews.
func (w *world) leased() (*fakeStore, *store.Lease) {
	w.Helper()
	lease := store.NewLease()
	lease.Renew(store.Now(), valid)
	return changing(w.open(), func(b *fakeBallot) { b.lease = lease }), lease
}

// A renewal comes at the moment when it is overdue. If there is an event, less than a third of the lease was left.
func TestRenewedWhenItIsOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		st, lease := w.leased()
		var wrong atomic.Int32
		w.campaign(w.candidate(st, "a", on(leadership.RenewalOverdue, func(e leadership.Event) {
			if e.Remaining >= valid/3 || e.Remaining <= 0 {
				wrong.Add(1)
			}
		})))
		for range often(100) {
			<-lease.Last().Overdue
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.Zero(w, wrong.Load())
	})
}

// No event of a term comes after its end while the ballot stands, even if the term ends when a renewal is overdue.
func TestTermEndedIsTheLastEvent(t *testing.T) {
	virtual(t, func(w *world) {
		st, lease := w.leased()
		var last atomic.Value
		c := w.candidate(st, "a", &leadership.CandidateOptions{Events: func(e leadership.Event) { last.Store(e.Kind) }})
		for range 30 {
			term := w.campaign(c)
			<-lease.Last().Overdue
			go c.Resign()
			synctest.Wait()
			require.Equal(w, leadership.TermEnded, last.Load())
			lease.Renew(store.Now(), valid)
			require.NoError(w, term.Withdraw(background))
		}
	})
}

// While Events hangs, at most 100 events wait for it.
func TestEventsThatWaitAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		st, lease := w.leased()
		var happened diary
		resumed := make(chan struct{})
		c := w.candidate(st, "a", on(leadership.RenewalOverdue, func(leadership.Event) { happened.add("overdue"); <-resumed }))
		require.NoError(w, w.campaign(c).Acknowledge(background))
		for range 300 {
			<-lease.Last().Overdue
			time.Sleep(time.Millisecond)
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.Equal(w, []string{"overdue"}, happened.all())
		close(resumed)
		synctest.Wait()
		require.Len(w, happened.all(), 1+100)
	})
}

// TestNothingIsToldAfterDone: Done waits for the line about the end of a term, and for the event of an acknowledgement
// whose answer comes after the end.
func TestNothingIsToldAfterDone(t *testing.T) {
	virtualRun(t, "log", func(w *world) {
		released := make(chan struct{})
		c := w.candidate(w.open(), "a", handledBy(func(message string) {
			if message == "leadership ended" {
				<-released
			}
		}))
		term := w.campaign(c)
		go c.Resign()
		synctest.Wait()
		require.False(w, c.IsLeader())
		require.NoError(w, term.Withdraw(background))
		c.Stop()
		require.False(w, isDone(c), "its last line is not written yet")
		close(released)
		require.True(w, isDone(c))
	})
	virtualRun(t, "Acknowledged", func(w *world) {
		released := make(chan struct{})
		told := false
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(context.Context, string) (leadership.Leader, error) {
				<-released
				return leadership.Leader{Value: "a", Revision: 1}, nil
			}
		}), "a", on(leadership.Acknowledged, func(leadership.Event) { told = true }))
		term := w.campaign(c)
		acknowledged := async(func() error { return term.Acknowledge(background) })
		synctest.Wait()
		require.NoError(w, term.Withdraw(background))
		c.Stop()
		require.False(w, isDone(c), "a call of Acknowledge goes on")
		close(released)
		<-c.Done()
		require.True(w, told)
		require.NoError(w, <-acknowledged)
		require.ErrorIs(w, term.Acknowledge(background), leadership.ErrNotElected, "after Done nothing is sent or told")
	})
}

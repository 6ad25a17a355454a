package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// diarist returns hooks that write into a diary.
func diarist(d *diary) *leadership.Options {
	return &leadership.Options{Hooks: &leadership.Hooks{
		TermBegan:            func(string, uint64) { d.add("began") },
		ResignationRequested: func(string, uint64) { d.add("requested") },
		TermEnded:            func(_ string, _ uint64, cause error) { d.add("ended: %v", cause) },
	}}
}

// TestRequestedResignation: the leader's work stops first, then its ballot is removed, and it stands again at the back.
func TestRequestedResignation(t *testing.T) {
	virtual(t, func(w *world) {
		d := &diary{}
		one, two := w.candidate(w.open(), "one", diarist(d)), w.candidate(w.open(), "two", nil)
		stopping := make(chan struct{})
		go func() {
			_ = one.Run(background, func(ctx context.Context, term *leadership.Term) error {
				<-ctx.Done()
				<-stopping
				return context.Cause(ctx)
			})
		}()
		w.until(one.IsLeader)
		two.RunForElection()
		synctest.Wait()
		token := one.Term().Token()
		require.NoError(w, w.observer.RequestResignation(background, election, token))
		synctest.Wait()
		require.False(w, one.IsLeader())
		require.False(w, two.IsLeader(), "the old leader's work has not stopped")
		require.Equal(w, []string{"one", "two"}, w.ballots())
		require.Equal(w, []string{"began", "requested", "ended: resigned: an operator has asked for it"}, d.all())
		close(stopping)
		w.until(two.IsLeader)
		w.until(func() bool { return len(w.ballots()) == 2 })
		require.Equal(w, []string{"two", "one"}, w.ballots())

		require.NoError(w, w.observer.RequestResignation(background, election, token), "it has resigned")
		time.Sleep(ttl)
		require.True(w, two.IsLeader(), "it was not asked")
	})
}

// TestRequestedResignationOfOneThatWaits: when its ballot is first it gives it back, without a term, and stands again.
func TestRequestedResignationOfOneThatWaits(t *testing.T) {
	virtual(t, func(w *world) {
		d := &diary{}
		one, two := w.candidate(w.open(), "one", nil), w.candidate(w.open(), "two", diarist(d))
		one.RunForElection()
		w.until(one.IsLeader)
		two.RunForElection()
		synctest.Wait()
		list, err := w.observer.Ballots(background, election)
		require.NoError(w, err)
		require.NoError(w, w.observer.RequestResignation(background, election, list[1].Token))
		synctest.Wait()
		require.Equal(w, []string{"one", "two"}, w.ballots())
		one.Resign()
		w.until(func() bool { return one.IsLeader() || two.IsLeader() })
		w.until(func() bool { return len(w.ballots()) == 2 })
		again, err := w.observer.Ballots(background, election)
		require.NoError(w, err)
		require.NotContains(w, again, list[1], "that ballot was given back")
		require.Subset(w, []string{"began"}, d.all(), "if it has led, it was with another ballot")
	})
}

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
		require.Equal(w, []string{"began", "requested", "ended: resigned: an operator has asked for the resignation"}, d.all())
		close(stopping)
		w.until(two.IsLeader)
		w.until(func() bool { return len(w.ballots()) == 2 })
		require.Equal(w, []string{"two", "one"}, w.ballots())

		require.NoError(w, w.observer.RequestResignation(background, election, token), "it has resigned")
		time.Sleep(ttl)
		require.True(w, two.IsLeader(), "it was not asked")
	})
}

// TestRequestedResignationOfOneThatWaits: it gives its ballot back at once, without a term, and stands again behind all
// others.
func TestRequestedResignationOfOneThatWaits(t *testing.T) {
	virtual(t, func(w *world) {
		d := &diary{}
		first := w.lead(w.open(), "one")
		two, three := w.candidate(w.open(), "two", diarist(d)), w.candidate(w.open(), "three", nil)
		two.RunForElection()
		synctest.Wait()
		three.RunForElection()
		synctest.Wait()
		for range 5 {
			list, err := w.observer.Ballots(background, election)
			require.NoError(w, err)
			require.Equal(w, []string{"one", "two", "three"}, w.ballots())
			for _, b := range list[1:] {
				require.NoError(w, w.observer.RequestResignation(background, election, b.Token))
				w.until(func() bool { return len(w.ballots()) == 3 && w.ballots()[2] == b.Value })
			}
		}
		require.Empty(w, d.all())
		require.NoError(w, first.Withdraw(background))
		w.until(two.IsLeader)
	})
}

// Campaign returns at once when an operator asks for the resignation of its ballot.
func TestRequestEndsACampaign(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "one")
		c := w.candidate(w.open(), "two", nil)
		ended := make(chan error, 1)
		go func() { _, err := c.Campaign(background); ended <- err }()
		synctest.Wait()
		require.NoError(w, w.observer.RequestResignation(background, election, c.Status().Token))
		err := <-ended
		require.ErrorIs(w, err, leadership.ErrRequested)
		require.ErrorIs(w, err, leadership.ErrResigned)
		require.Equal(w, []string{"one"}, w.ballots())
		require.Zero(w, w.now())
	})
}

package leadership_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/trouble"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// is checks the state of a candidate, and since when it is in it.
func (w *world) is(c *leadership.Candidate, state leadership.State, since time.Duration) leadership.Status {
	w.Helper()
	s := c.Status()
	require.Equal(w, state.String(), s.State.String())
	require.Equal(w, since, s.Since.Sub(w.began))
	require.Equal(w, s.State == leadership.TakingOver || s.State == leadership.Leading, c.IsLeader())
	return s
}

func TestStatus(t *testing.T) {
	virtual(t, func(w *world) {
		first := w.lead(w.open(), "first")
		st := w.open()
		c := w.candidate(st, "a", nil)
		require.Equal(w, leadership.Status{Since: w.began, TTL: ttl}, c.Status())

		w.at(time.Second)
		st.Faults().Cut()
		acknowledge, finish := make(chan struct{}), make(chan struct{})
		run(c, func(ctx context.Context, term *leadership.Term) error {
			<-acknowledge
			require.NoError(w, term.Acknowledge(ctx))
			<-ctx.Done()
			<-finish
			return nil
		})
		w.at(40 * time.Second)
		s := w.is(c, leadership.Casting, time.Second)
		require.False(w, s.Stood)
		require.ErrorIs(w, s.LastError, store.ErrUnavailable)
		require.Zero(w, s.Token)

		st.Faults().Heal()
		w.at(50 * time.Second)
		s = w.is(c, leadership.Waiting, c.Status().Since.Sub(w.began))
		require.True(w, s.Stood)
		require.NoError(w, s.LastError)
		require.Greater(w, s.Token, first.Token())
		require.False(w, s.Overdue || s.Requested)
		require.Zero(w, s.Remaining)

		require.NoError(w, first.Withdraw(background))
		w.at(51 * time.Second)
		s = w.is(c, leadership.TakingOver, 50*time.Second)
		require.Positive(w, s.Remaining)
		require.Equal(w, termOf(c).Token(), s.Token)
		close(acknowledge)
		w.at(52 * time.Second)
		w.is(c, leadership.Leading, 51*time.Second)

		st.Faults().Cut()
		lost := termOf(c).Context().Done()
		w.until(func() bool { return c.Status().Overdue })
		w.is(c, leadership.Leading, 51*time.Second)
		<-lost
		synctest.Wait()
		ended := w.now()
		s = w.is(c, leadership.WindingDown, ended)
		require.Positive(w, s.Token)
		require.Zero(w, s.Remaining)
		w.at(ended + time.Second)
		w.is(c, leadership.WindingDown, ended)
		st.Faults().Heal()
		require.Zero(w, s.Led)
		close(finish)
		w.at(ended + 4*ttl)
		require.True(w, c.IsLeader())
		require.Equal(w, w.began.Add(ended+time.Second), c.Status().Led)
		c.Stop()
		<-c.Done()
		w.is(c, leadership.Idle, w.now())
	})
}

// A candidate whose ballot was lost while it waited casts again.
func TestStatusOfALostBallot(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "leader")
		st := w.open()
		c := w.candidate(st, "a", nil)
		run(c, leadership.Lead)
		w.at(time.Second)
		w.service.Delete(election, w.is(c, leadership.Waiting, 0).Token)
		synctest.Wait()
		st.Faults().Cut()
		w.at(2 * time.Second)
		s := w.is(c, leadership.Casting, time.Second)
		require.Zero(w, s.Token)
		st.Faults().Heal()
	})
}

// The lease has run out, and no goroutine has noticed yet: Status says so, as IsLeader does.
func TestStatusWithoutAnyEvent(t *testing.T) {
	virtual(t, func(w *world) {
		lease, frozen := store.NewLease(), make(chan struct{})
		defer close(frozen)
		lease.Renew(store.Now(), valid)
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease, b.frozen = lease, frozen }), "a", nil)
		term := w.campaign(c)
		w.is(c, leadership.TakingOver, 0)
		time.Sleep(valid)
		require.Equal(w, leadership.WindingDown, c.Status().State)
		require.NoError(w, term.Context().Err(), "what ends the term is frozen")
	})
}

// A candidate of Campaign winds down until its caller withdraws the ballot.
func TestStatusOfCampaign(t *testing.T) {
	virtual(t, func(w *world) {
		st, c, term := w.elected()
		require.NoError(w, st.RequestResignation(background, election, term.Token()))
		w.at(time.Second)
		require.True(w, w.is(c, leadership.WindingDown, 0).Requested)
		require.ErrorIs(w, context.Cause(term.Context()), leadership.ErrRequested)
		require.NoError(w, term.Withdraw(background))
		require.Zero(w, w.is(c, leadership.Idle, time.Second).Token)

		w.lead(w.open(), "b")
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := c.Campaign(ctx)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		w.is(c, leadership.Idle, 2*time.Second)
		st.Faults().Cut()
		ctx, cancel = context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = c.Campaign(ctx)
		require.Equal(w, err, w.is(c, leadership.Idle, 3*time.Second).LastError)
	})
}

// BallotWithdrawn comes after TermEnded, once the ballot is known to be gone, and once.
func TestBallotWithdrawn(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		st := w.open()
		c := w.candidate(st, "a", telling(&happened))
		finish := make(chan struct{})
		run(c, func(ctx context.Context, _ *leadership.Term) error { <-ctx.Done(); <-finish; return nil })
		w.until(c.IsLeader)
		c.Resign()
		synctest.Wait()
		require.Equal(w, []string{"ballot cast", "term began", "term ended: resigned"}, happened.all())
		close(finish)
		w.until(c.IsLeader)
		require.Equal(w, []string{"ballot withdrawn", "ballot cast", "term began"}, happened.all()[3:])
		st.Faults().Cut()
		halt(c)
		require.Equal(w, []string{"term ended: stopped"}, happened.all()[6:], "the store could not confirm it")
		st.Faults().Heal()
		w.until(func() bool { return len(w.ballots()) == 0 })

		happened.clear()
		term := w.campaign(w.candidate(st, "a", telling(&happened)))
		for range 3 {
			require.NoError(w, term.Withdraw(background))
		}
		synctest.Wait()
		require.Equal(w, []string{"ballot cast", "term began", "term ended: resigned", "ballot withdrawn"}, happened.all())
	})
}

func TestStateHasAName(t *testing.T) {
	for s := leadership.Idle; s <= leadership.WindingDown; s++ {
		require.NotContains(t, s.String(), "state ")
	}
	require.Equal(t, "state -1", leadership.State(-1).String())
	require.Equal(t, "state 99", leadership.State(99).String())
	require.ErrorIs(t, leadership.ErrRequested, leadership.ErrResigned)
	require.False(t, errors.Is(leadership.ErrResigned, leadership.ErrRequested))
}

// TestRequestedResignation: the leader's work stops first, then its ballot is removed, and it stands again at the back.
func TestRequestedResignation(t *testing.T) {
	virtual(t, func(w *world) {
		d := &diary{}
		one, two := w.candidate(w.open(), "one", telling(d)), w.candidate(w.open(), "two", nil)
		stopping := make(chan struct{})
		run(one, func(ctx context.Context, term *leadership.Term) error {
			<-ctx.Done()
			<-stopping
			return context.Cause(ctx)
		})
		w.until(one.IsLeader)
		run(two, leadership.Lead)
		synctest.Wait()
		token := termOf(one).Token()
		require.NoError(w, w.observer.RequestResignation(background, election, token))
		synctest.Wait()
		require.False(w, one.IsLeader())
		require.False(w, two.IsLeader(), "the old leader's work has not stopped")
		require.Equal(w, []string{"one", "two"}, w.ballots())
		require.Equal(w, []string{"ballot cast", "term began", "resignation requested", "term ended: resigned: an operator has asked for the resignation"}, d.all())
		close(stopping)
		w.until(two.IsLeader)
		w.until(func() bool { return len(w.ballots()) == 2 })
		require.Equal(w, []string{"two", "one"}, w.ballots())

		require.NoError(w, w.observer.RequestResignation(background, election, token), "it has resigned")
		time.Sleep(ttl)
		require.True(w, two.IsLeader(), "it was not asked")
	})
}

// Campaign returns at once when an operator asks for the resignation of its ballot.
func TestRequestEndsACampaign(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "one")
		c := w.candidate(w.open(), "two", nil)
		ended := campaigning(background, c)
		synctest.Wait()
		require.NoError(w, w.observer.RequestResignation(background, election, c.Status().Token))
		err := <-ended
		require.ErrorIs(w, err, leadership.ErrRequested)
		require.ErrorIs(w, err, leadership.ErrResigned)
		require.Equal(w, []string{"one"}, w.ballots())
		require.Zero(w, w.now())
	})
}

// TestRequestsAreNoChurn: however often an operator asks a candidate to resign, it stands again at once.
func TestRequestsAreNoChurn(t *testing.T) {
	const soon = 10 * time.Millisecond // the back-off begins with one
	virtualRun(t, "of one that leads", func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		run(c, leadership.Lead)
		w.until(c.IsLeader)
		for i := range 20 {
			asked, token := w.now(), termOf(c).Token()
			require.NoError(w, w.observer.RequestResignation(background, election, token))
			w.until(func() bool { term := termOf(c); return term != nil && term.Token() > token })
			require.Less(w, w.now()-asked, soon, "after %d requests", i+1)
		}
	})
	virtualRun(t, "of one that waits", func(w *world) {
		st := &fakeStore{Store: w.open()}
		cast := 0
		st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
			cast++
			ballot, err := st.Store.Cast(ctx, election, value)
			return askedBallot{ballot}, err
		}
		c := w.candidate(st, "a", nil)
		run(c, leadership.Lead)
		w.at(20 * soon)
		require.GreaterOrEqual(w, cast, 20)
		require.False(w, c.IsLeader())
	})
}

// askedBallot is one whose owner has been asked to resign.
type askedBallot struct{ store.Ballot }

// ResignationRequested implements store.Ballot.
func (askedBallot) ResignationRequested() <-chan struct{} {
	asked := make(chan struct{})
	close(asked)
	return asked
}

// While a call of Cast goes on after a request has failed, Status says why, until a ballot has been cast.
func TestStatusOfAServiceThatDoesNotAnswer(t *testing.T) {
	virtual(t, func(w *world) {
		st := &fakeStore{Store: w.open()}
		st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
			trouble.Of(ctx)(store.ErrUnavailable)
			time.Sleep(ttl)
			return st.Store.Cast(ctx, election, value)
		}
		c := w.candidate(st, "a", nil)
		require.NoError(w, c.Status().LastError)
		run(c, func(ctx context.Context, term *leadership.Term) error {
			require.Nil(w, trouble.Of(ctx), "it is for that call only")
			return serve(ctx, term)
		})
		synctest.Wait()
		require.Zero(w, w.now())
		require.ErrorIs(w, c.Status().LastError, store.ErrUnavailable)
		require.Equal(w, leadership.Casting, c.Status().State)
		w.until(c.IsLeader)
		require.NoError(w, c.Status().LastError)
	})
}

package leadership_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
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
		go func() {
			_ = c.Run(background, func(ctx context.Context, term *leadership.Term) error {
				<-acknowledge
				require.NoError(w, term.Acknowledge(ctx))
				<-ctx.Done()
				<-finish
				return nil
			})
		}()
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
		require.Equal(w, c.Term().Token(), s.Token)
		close(acknowledge)
		w.at(52 * time.Second)
		w.is(c, leadership.Leading, 51*time.Second)

		st.Faults().Cut()
		lost := c.Term().Context().Done()
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
		close(finish)
		w.at(ended + 4*ttl)
		require.True(w, c.IsLeader())
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
		c.RunForElection()
		w.at(time.Second)
		w.service.Delete(election, w.is(c, leadership.Waiting, 0).Token)
		synctest.Wait()
		st.Faults().Cut()
		w.at(2 * time.Second)
		s := w.is(c, leadership.Casting, time.Second)
		require.Zero(w, s.Token)
		require.True(w, s.Stood)
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

// A candidate of Campaign winds down until its caller gives the ballot back.
func TestStatusOfCampaign(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		term := w.campaign(c)
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

// GivenBack comes after TermEnded, once the ballot is known to be gone.
func TestGivenBack(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		st := w.open()
		c := w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{
			Cast:      func(string, uint64) { happened.add("cast") },
			TermBegan: func(string, uint64) { happened.add("began") },
			TermEnded: func(string, uint64, error) { happened.add("ended") },
			GivenBack: func(_ string, _ uint64, after time.Duration) { happened.add("given back after %v", after) },
		}})
		ended := make(chan struct{})
		go func() {
			_ = c.Run(background, func(ctx context.Context, _ *leadership.Term) error {
				<-ctx.Done()
				time.Sleep(time.Second) // the work winds down
				<-ended
				return nil
			})
		}()
		w.until(c.IsLeader)
		c.Resign()
		synctest.Wait()
		require.Equal(w, []string{"cast", "began", "ended"}, happened.all())
		close(ended)
		w.until(c.IsLeader)
		require.Equal(w, []string{"cast", "began", "ended", "given back after 1s", "cast", "began"}, happened.all())
		st.Faults().Cut()
		c.Stop()
		<-c.Done()
		require.Equal(w, []string{"ended"}, happened.all()[6:], "the store could not confirm it")
		st.Faults().Heal()
		w.until(func() bool { return len(w.ballots()) == 0 })

		happened.entries = nil
		c = w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{
			TermEnded: func(string, uint64, error) { happened.add("ended") },
			GivenBack: func(_ string, _ uint64, after time.Duration) { happened.add("given back after %v", after) },
		}})
		term := w.campaign(c)
		for range 3 {
			require.NoError(w, term.Withdraw(background))
		}
		synctest.Wait()
		require.Equal(w, []string{"ended", "given back after 0s"}, happened.all())
	})
}

// TestChainHooks: each hook of each of the list is called, with the same arguments, whatever the one before does.
func TestChainHooks(t *testing.T) {
	fields := reflect.TypeFor[leadership.Hooks]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		var called []string
		hooks := func(who string, then func()) *leadership.Hooks {
			var h leadership.Hooks
			f := reflect.ValueOf(&h).Elem().Field(i)
			f.Set(reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
				called = append(called, who+args[0].String())
				then()
				return nil
			}))
			return &h
		}
		chain := leadership.ChainHooks(nil, hooks("a", func() { panic("a") }), &leadership.Hooks{}, hooks("b", runtime.Goexit), hooks("c", func() {}))
		args := make([]reflect.Value, fields.Field(i).Type.NumIn())
		for k := range args {
			args[k] = reflect.Zero(fields.Field(i).Type.In(k))
		}
		args[0] = reflect.ValueOf("1")
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			reflect.ValueOf(chain).Elem().Field(i).Call(args)
		}()
		<-done
		require.Equal(t, []string{"a1", "b1", "c1"}, called, name)
		for k := range fields.NumField() {
			require.Equal(t, k != i, reflect.ValueOf(chain).Elem().Field(k).IsNil(), "none of the list has %s", fields.Field(k).Name)
		}
	}
	require.Equal(t, &leadership.Hooks{}, leadership.ChainHooks())
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

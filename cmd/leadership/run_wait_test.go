package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A runner gives up with 124 only behind a process that lives: it waits until a dead one's ballot would have gone.
func TestRunGivesUpBehindOneThatLives(t *testing.T) {
	for wait, at := range map[time.Duration]time.Duration{time.Second: testBound, time.Minute: time.Minute} {
		virtual(t, func(w *world) {
			w.rival()
			w.runner.wait = wait
			over := w.run()
			w.at(at - 1)
			require.Empty(w, over)
			w.at(at)
			require.Equal(w, outcome{final, exitNeverLed, errNeverLed}, <-over)
			require.Equal(w, []string{"rival"}, w.ballots())
		})
	}
	virtual(t, func(w *world) { // it is dead
		dead := w.open()
		_, err := dead.Cast(w.Context(), "job", "dead")
		require.NoError(w, err)
		dead.Faults().Cut()
		w.runner.wait = time.Second
		over := w.run()
		w.at(testTTL)
		w.program(1).exit(guard.Result{Code: 7})
		require.Equal(w, outcome{kind: exited, code: 7}, <-over)
	})
}

// renewed is a store that knows for how long the first in line has been silent.
type renewed struct {
	store.Store
	silence func() time.Duration
}

func (r renewed) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	list, err := r.Store.Ballots(ctx, election)
	if len(list) > 0 {
		list[0].Silence = r.silence()
	}
	return list, err
}

// A store that knows when a session was renewed last makes the bound unnecessary.
func TestRunSeesARenewal(t *testing.T) {
	for silence, at := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, 5 * time.Second: 6 * time.Second, -time.Second: testBound, time.Hour: testBound,
	} {
		virtual(t, func(w *world) {
			w.rival()
			w.runner.store = renewed{w.store, func() time.Duration { return silence }}
			w.runner.wait = 5 * time.Second
			over := w.run()
			w.at(at - 1)
			require.Empty(w, over)
			w.at(at)
			require.Equal(w, outcome{final, exitNeverLed, errNeverLed}, <-over)
		})
	}
}

// One that lives is remembered, also if the store is down as --wait ends.
func TestRunRemembersOneThatLives(t *testing.T) {
	virtual(t, func(w *world) {
		w.rival()
		w.runner.wait = time.Minute
		over := w.run()
		w.at(testBound)
		w.store.Faults().Cut()
		w.at(time.Minute - 1)
		require.Empty(w, over)
		w.at(time.Minute + withdrawal)
		require.Equal(w, outcome{final, exitNeverLed, errNeverLed}, <-over)
		w.store.Faults().Heal()
	})
}

// refusing is a store that casts no ballots.
type refusing struct {
	store.Store
	err error
}

func (r refusing) Cast(context.Context, string, string) (store.Ballot, error) { return nil, r.err }

// A runner that has not stood within --wait says why, and does not say that another has led.
func TestRunNeverStood(t *testing.T) {
	readOnly := errors.New("read-only file system")
	for name, test := range map[string]struct {
		begin func(w *world)
		code  int
		err   error
	}{
		"denied":    {func(w *world) { w.runner.store = refusing{w.store, store.ErrDenied} }, exitDenied, store.ErrDenied},
		"read-only": {func(w *world) { w.runner.store = refusing{w.store, readOnly} }, exitUnavailable, readOnly},
		"cut off":   {func(w *world) { w.store.Faults().Cut() }, exitUnavailable, store.ErrUnavailable},
		"unfit": {func(w *world) {
			w.runner.fitness = &leadership.Fitness{Check: func(context.Context, *leadership.Term) error { return readOnly }}
		}, exitUnavailable, readOnly},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				test.begin(w)
				w.rival()
				w.runner.wait = 3 * time.Second
				over := w.run()
				w.at(3*time.Second - 1)
				require.Empty(w, over)
				w.at(3*time.Second + 2*withdrawal)
				o := <-over
				require.Equal(w, [2]int{int(final), test.code}, [2]int{int(o.kind), o.code})
				require.ErrorIs(w, o.err, test.err)
				require.ErrorContains(w, o.err, "within --wait, and no other is known to")
				w.store.Faults().Heal()
			})
		})
	}
}

// Behind a ballot without a sign of life, a store that falls silent is waited for no longer than the bound.
func TestRunWaitsForASignOfLife(t *testing.T) {
	virtual(t, func(w *world) {
		w.rival()
		w.runner.wait = 3 * time.Second
		over := w.run()
		w.store.Faults().Cut()
		w.at(3*time.Second + testBound - 1)
		require.Empty(w, over)
		w.at(3*time.Second + testBound + 2*withdrawal)
		o := <-over
		require.Equal(w, exitUnavailable, o.code)
		require.ErrorIs(w, o.err, store.ErrUnavailable)
		w.store.Faults().Heal()
		synctest.Wait()
	})
}

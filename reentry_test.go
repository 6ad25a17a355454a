package leadership_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// forms are the two ways to drive a candidate. Each calls visit when the candidate leads, and returns the error with which it
// ended.
var forms = map[string]func(ctx context.Context, c *leadership.Candidate, visit func()) error{
	"Run": func(ctx context.Context, c *leadership.Candidate, visit func()) error {
		return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
			visit()
			return serve(ctx, term)
		})
	},
	"Campaign": func(ctx context.Context, c *leadership.Candidate, visit func()) error {
		for {
			term, err := c.Campaign(ctx)
			switch {
			case errors.Is(err, leadership.ErrStopped):
				return nil
			case err != nil && ctx.Err() != nil, store.Permanent(err):
				return err
			case err != nil: // an event is campaigning
				time.Sleep(100 * time.Millisecond)
				continue
			}
			visit()
			_ = term.Acknowledge(background)
			select {
			case <-term.Context().Done():
			case <-ctx.Done():
			}
			ending, cancel := context.WithTimeout(background, time.Second)
			_ = term.Withdraw(ending)
			cancel()
		}
	},
}

// Every method of a candidate and of its term, Close, and the end of the caller's context, in the leader's function and in
// events of a term that goes on and of one that is over, in both forms. None of them waits for itself, and each takes effect.
func TestReentry(t *testing.T) {
	type scene struct {
		w      *world
		c      *leadership.Candidate
		st     store.Store
		cancel context.CancelFunc
	}
	for action, test := range map[string]struct {
		call  func(s scene)
		waits bool  // it may wait for the store
		ends  bool  // the candidate
		err   error // with which it ends
	}{
		"Resign": {call: func(s scene) { s.c.Resign() }},
		"Term.Withdraw": {waits: true, call: func(s scene) { // Run refuses
			if term := termOf(s.c); term != nil {
				_ = term.Withdraw(background)
			}
		}},
		"Term.Acknowledge": {waits: true, call: func(s scene) {
			if term := termOf(s.c); term != nil {
				_ = term.Acknowledge(background)
			}
		}},
		"Run": {waits: true, call: func(s scene) { // a candidate that is idle waits a second for the event that calls it
			require.Error(s.w, s.c.Run(ended(), serve))
		}},
		"Campaign": {waits: true, call: func(s scene) {
			if term, err := s.c.Campaign(background); err == nil { // the event of a term that was withdrawn
				require.NoError(s.w, term.Withdraw(background))
			}
		}},
		"Stop":                    {ends: true, call: func(s scene) { s.c.Stop() }},
		"Close":                   {ends: true, err: leadership.ErrClosed, call: func(s scene) { require.NoError(s.w, s.st.Close()) }},
		"the end of its context":  {ends: true, err: context.Canceled, call: func(s scene) { s.cancel() }},
		"that, and Resign":        {ends: true, err: context.Canceled, call: func(s scene) { s.cancel(); s.c.Resign() }},
		"that, and Stop":          {ends: true, call: func(s scene) { s.cancel(); s.c.Stop() }},
		"that, and the term ends": {ends: true, err: context.Canceled, call: func(s scene) { s.cancel(); endTerm(s.c) }},
	} {
		for form, drive := range forms {
			for _, site := range []string{"lead", leadership.TermBegan.String(), leadership.BallotWithdrawn.String()} {
				virtualRun(t, action+" in "+site+" of "+form, func(w *world) {
					st := w.open()
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					var c *leadership.Candidate
					returned := false
					var once sync.Once
					visit := func(at string) {
						if at != site {
							return
						}
						once.Do(func() {
							before := w.now()
							test.call(scene{w, c, st, cancel})
							returned = true
							require.True(w, test.waits || before == w.now(), "it waited")
						})
					}
					c = w.candidate(st, "a", &leadership.CandidateOptions{Events: func(e leadership.Event) { visit(e.Kind.String()) }})
					result := async(func() error { return drive(ctx, c, func() { visit("lead") }) })
					w.at(ttl)
					if !returned {
						w.service.Clear(election) // BallotWithdrawn
					}
					w.at(2 * ttl)
					require.True(w, returned, "the call has not returned")
					require.Equal(w, test.ends, !pending(result))
					if !test.ends {
						require.True(w, c.IsLeader(), "it stands again")
						require.Equal(w, "a", w.leader())
						w.stops(c, result)
						return
					}
					err := <-result
					either := action == "that, and Stop" && errors.Is(err, context.Canceled)           // Campaign may see the context's end first
					require.Truef(w, either || errors.Is(err, test.err), "%v, want %v", err, test.err) // nil is nil only
					require.False(w, c.IsLeader())
					require.Empty(w, w.ballots())
				})
			}
		}
	}
}

func endTerm(c *leadership.Candidate) {
	if term := termOf(c); term != nil {
		term.End(nil)
	}
}

// End of a term in the leader's function. Withdraw is refused there, and ends nothing.
func TestReentryByTerm(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		turns := 0
		result := run(c, func(ctx context.Context, term *leadership.Term) error {
			if turns++; turns == 1 {
				term.End(nil)
				term.End(errTakeover)
				require.ErrorIs(w, context.Cause(ctx), leadership.ErrResigned)
				require.Equal(w, []string{"a"}, w.ballots(), "withdrawn when lead returns")
				return nil
			}
			require.ErrorIs(w, term.Withdraw(background), leadership.ErrRunning)
			require.NoError(w, ctx.Err())
			return serve(ctx, term)
		})
		w.at(time.Second)
		require.True(w, pending(result))
		require.Equal(w, 2, turns)
		w.stops(c, result)
	})
}

// Every method of a follower, and Close, in an event and in an iterator.
func TestReentryOfAFollower(t *testing.T) {
	for name, test := range map[string]struct {
		call func(w *world, f *leadership.Follower, st store.Store)
		ends bool
	}{
		"Start": {func(_ *world, f *leadership.Follower, _ store.Store) { f.Start() }, false},
		"Wait": {func(w *world, f *leadership.Follower, _ store.Store) {
			leader, err := f.Wait(background)
			require.NoError(w, err)
			require.Equal(w, "a", leader.Value)
		}, false},
		"Changes": {func(_ *world, f *leadership.Follower, _ store.Store) {
			for range f.Changes(background) {
				return
			}
		}, false},
		"Leader": {func(_ *world, f *leadership.Follower, _ store.Store) { f.Leader(); f.AsOf(); _ = f.Err() }, false},
		"Stop":   {func(_ *world, f *leadership.Follower, _ store.Store) { f.Stop() }, true},
		"Close":  {func(w *world, _ *leadership.Follower, st store.Store) { require.NoError(w, st.Close()) }, true},
	} {
		for _, site := range []string{"event", "iterator"} {
			virtualRun(t, name+" in an "+site, func(w *world) {
				w.lead(w.open(), "a")
				st := w.open()
				returned := false
				var f *leadership.Follower
				visit := func(at string) {
					if at == site && !returned {
						test.call(w, f, st)
						returned = true
					}
				}
				f = w.follower(st, on(leadership.LeaderChanged, func(leadership.Event) { visit("event") }))
				iterating := async(func() error {
					for range f.Changes(background) {
						visit("iterator")
					}
					return nil
				})
				synctest.Wait()
				require.True(w, returned, "the call has not returned")
				require.Equal(w, test.ends, !pending(iterating))
				halt(f)
				require.NoError(w, <-iterating, "the iterator ends")
			})
		}
	}
}

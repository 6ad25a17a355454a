package leadership_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// places are where a user's code runs inside a candidate. The script of TestReentry passes through all of them.
var places = []string{
	"lead", "won callback", "lost callback", "takeover-failed callback",
	"Won", "Lost", "Acknowledged", "Renewed", "InJeopardy", "Error",
}

// visitor runs an action at the first arrival at its place.
type visitor struct {
	place  string
	action func()
	done   bool // only read and written by the goroutine that arrives, and after everything has ended
	w      *world
}

func (v *visitor) at(place string) {
	if place != v.place || v.done {
		return
	}
	v.done = true
	before := v.w.now()
	v.action()
	require.Equal(v.w, before, v.w.now(), "it waited")
}

// reentrant is a candidate that calls the visitor everywhere, and a store below whose first acknowledgement fails.
func reentrant(w *world, st store.Store, v *visitor) *leadership.Candidate {
	acknowledged := false
	fake := changing(st, func(b *fakeBallot) {
		b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
			if !acknowledged {
				acknowledged = true
				return store.Leader{}, store.ErrUnknownOutcome
			}
			return b.Ballot.Acknowledge(ctx, value)
		}
	})
	c := w.candidate(fake, "a", &leadership.Options{Hooks: &leadership.Hooks{
		Won:          func(string, uint64) { v.at("Won") },
		Lost:         func(string, uint64, error) { v.at("Lost") },
		Acknowledged: func(string, uint64, leadership.Leader) { v.at("Acknowledged") },
		Renewed:      func(string, uint64, time.Duration) { v.at("Renewed") },
		InJeopardy:   func(string, uint64, time.Duration) { v.at("InJeopardy") },
		Error:        func(string, error, time.Duration) { v.at("Error") },
	}})
	c.OnWon(func(context.Context, *leadership.Term) error {
		v.at("won callback")
		if v.place == "takeover-failed callback" && !v.done {
			return errTakeover
		}
		return nil
	})
	c.OnLost(func(context.Context, store.Leader) { v.at("lost callback") })
	c.OnTakeoverFailed(func(error) { v.at("takeover-failed callback") })
	return c
}

// forms are the three ways to drive a candidate; each returns the error with which it ended.
var forms = map[string]func(c *leadership.Candidate, v *visitor) error{
	"Run": func(c *leadership.Candidate, v *visitor) error {
		return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
			v.at("lead")
			return serve(ctx, term)
		})
	},
	"RunForElection": func(c *leadership.Candidate, _ *visitor) (last error) {
		elected, errs := c.RunForElection()
		for range elected { // until it is closed
		}
		for err := range errs {
			last = err
		}
		if !store.Permanent(last) {
			return nil
		}
		return last
	},
	"Campaign": func(c *leadership.Candidate, v *visitor) error {
		for {
			term, err := c.Campaign(background)
			switch {
			case errors.Is(err, leadership.ErrStopped):
				return nil
			case store.Permanent(err):
				return err
			case err != nil: // the last ballot is still being given back
				time.Sleep(100 * time.Millisecond)
				continue
			}
			v.at("lead")
			_ = term.Acknowledge(background)
			<-term.Context().Done()
			ctx, cancel := context.WithTimeout(background, time.Second)
			_ = term.Resign(ctx)
			cancel()
		}
	},
}

// Case 56: each of the ends of a candidacy, called from each place where a user's code runs, in each form: none of
// them waits for itself, and each has its effect.
func TestReentry(t *testing.T) {
	type scene struct {
		w  *world
		c  *leadership.Candidate
		st store.Store
	}
	for action, test := range map[string]struct {
		call func(s scene)
		ends bool  // the candidate, for good
		err  error // with which it ends
	}{
		"Resign": {func(s scene) { require.NoError(s.w, s.c.Resign(background)) }, false, nil},
		"Stop":   {func(s scene) { s.c.Stop() }, true, nil},
		"Close":  {func(s scene) { require.NoError(s.w, s.st.Close()) }, true, leadership.ErrClosed},
	} {
		for form, drive := range forms {
			for _, place := range places {
				if form == "RunForElection" && place == "lead" ||
					form == "Campaign" && (place == "won callback" || place == "takeover-failed callback") {
					continue // that form has no such place
				}
				t.Run(action+" in "+place+" of "+form, func(t *testing.T) {
					virtual(t, func(w *world) {
						other := w.lead(w.open(), "other")
						st := w.open()
						v := &visitor{place: place, w: w}
						c := reentrant(w, st, v)
						v.action = func() { test.call(scene{w, c, st}) }
						result := async(func() error { return drive(c, v) })

						w.at(time.Second) // the lost callback has been called
						require.NoError(w, other.Resign(background))
						w.at(2 * ttl) // Won, Error, Acknowledged, Renewed
						st.Faults().Cut()
						w.at(2*ttl + valid - time.Second) // InJeopardy
						st.Faults().Heal()
						w.at(4 * ttl)
						w.service.Clear(election) // Lost
						w.at(6 * ttl)
						require.Equal(w, test.ends, !pending(result))
						if test.ends {
							require.ErrorIs(w, <-result, test.err)
							require.False(w, c.IsLeader())
							require.Empty(w, w.ballots())
						} else {
							require.True(w, c.IsLeader(), "it stands again")
							require.Equal(w, "a", w.leader())
							c.Stop()
							require.NoError(w, <-result)
						}
						require.True(w, v.done, "the script did not come to the place")
					})
				})
			}
		}
	}
}

// The term's own Resign, where the term is at hand.
func TestReentryByTerm(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		turns := 0
		c.OnWon(func(ctx context.Context, term *leadership.Term) error {
			if turns++; turns == 1 {
				require.NoError(w, term.Resign(background))
				require.ErrorIs(w, context.Cause(ctx), leadership.ErrResigned)
			}
			return nil
		})
		result := async(func() error {
			return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
				if ctx.Err() != nil {
					return nil
				}
				if turns == 2 {
					require.NoError(w, term.Resign(background))
					require.NoError(w, term.Resign(background))
					require.ErrorIs(w, context.Cause(ctx), leadership.ErrResigned)
					require.Equal(w, []string{"a"}, w.ballots(), "given back when lead returns")
					return nil
				}
				require.Equal(w, 3, turns)
				return serve(ctx, term)
			})
		})
		w.at(time.Second)
		require.True(w, pending(result))
		require.Equal(w, 3, turns)
		c.Stop()
		require.NoError(w, <-result)
	})
}

func TestReentryOfAFollower(t *testing.T) {
	for name, stop := range map[string]func(w *world, f *leadership.Follower, st store.Store){
		"Stop":  func(_ *world, f *leadership.Follower, _ store.Store) { f.Stop() },
		"Close": func(w *world, _ *leadership.Follower, st store.Store) { require.NoError(w, st.Close()) },
	} {
		for _, place := range []string{"LeaderChanged", "Error", "new leader callback", "gone callback", "Changes"} {
			t.Run(name+" in "+place, func(t *testing.T) {
				virtual(t, func(w *world) {
					st := w.open()
					fake := &fakeStore{Store: st}
					fake.leader = func(context.Context, string, *store.Leader) (store.Leader, error) {
						fake.leader = nil
						return store.Leader{}, store.ErrUnavailable
					}
					v := &visitor{place: place, w: w}
					f := w.follower(fake, &leadership.Options{Hooks: &leadership.Hooks{
						LeaderChanged: func(string, leadership.Leader) { v.at("LeaderChanged") },
						Error:         func(string, error, time.Duration) { v.at("Error") },
					}})
					v.action = func() { stop(w, f, st) }
					f.OnNewLeader(func(leadership.Leader) { v.at("new leader callback") })
					f.OnLeaderGone(func() { v.at("gone callback") })
					values, _ := f.FollowElection()
					iterating := async(func() error {
						for range f.Changes(background) {
							v.at("Changes")
						}
						return nil
					})
					w.at(time.Second)
					w.lead(w.open(), "a")
					require.NoError(w, <-iterating, "the iterator ends")
					for range values { // the channel is closed
					}
					f.Stop()
					require.True(w, v.done)
				})
			})
		}
	}
}

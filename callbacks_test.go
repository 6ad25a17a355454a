package leadership_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// drives are the two ways to drive a candidate that call its callbacks.
var drives = map[string]func(c *leadership.Candidate){
	"Run":            func(c *leadership.Candidate) { go func() { _ = c.Run(background, nil) }() },
	"RunForElection": func(c *leadership.Candidate) { c.RunForElection() },
}

// Case 1: the acknowledgement waits for all won callbacks, called in the order registered.
func TestWonCallbacksComeBeforeTheAcknowledgement(t *testing.T) {
	for name, drive := range drives {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				var happened diary
				c := w.candidate(w.open(), "a", nil)
				for _, callback := range []string{"first", "second", "third"} {
					c.OnWon(func(ctx context.Context, term *leadership.Term) error {
						require.True(w, c.IsLeader())
						require.Equal(w, ctx, term.Context())
						require.Empty(w, w.leader())
						time.Sleep(10 * ttl)
						require.Empty(w, w.leader())
						happened.add("%s", callback)
						return nil
					})
				}
				loser := w.candidate(w.open(), "b", nil)
				loser.OnLost(func(_ context.Context, leader store.Leader) { happened.add("b lost to %s", leader.Value) })
				loser.OnWon(func(context.Context, *leadership.Term) error { happened.add("b won"); return nil })
				drive(c)
				synctest.Wait()
				loser.RunForElection()
				w.at(30*ttl - 1)
				require.Equal(w, []string{"first", "second"}, happened.all())
				w.at(30 * ttl)
				require.Equal(w, []string{"first", "second", "third", "b lost to a"}, happened.all())
				require.Equal(w, "a", w.leader())
			})
		})
	}
}

func TestWonCallbacksRunBeforeLead(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		c := w.candidate(w.open(), "a", nil)
		c.OnWon(func(context.Context, *leadership.Term) error { happened.add("won"); return nil })
		go func() {
			_ = c.Run(background, func(ctx context.Context, term *leadership.Term) error {
				happened.add("lead")
				return serve(ctx, term)
			})
		}()
		synctest.Wait()
		require.Equal(w, []string{"won", "lead"}, happened.all())
	})
}

// Case 55: one that fails or panics: the rest is left out, nothing is acknowledged, takeover-failed is called, and the
// candidate goes to the back of the queue.
func TestWonCallbackThatFails(t *testing.T) {
	for failure, fail := range map[string]func() error{
		"error": func() error { return errTakeover },
		"panic": func() error { panic("the disk is full") },
	} {
		for name, drive := range drives {
			t.Run(failure+" in "+name, func(t *testing.T) {
				virtual(t, func(w *world) {
					var happened diary
					a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
					a.OnWon(func(context.Context, *leadership.Term) error { happened.add("first"); return nil })
					a.OnWon(func(context.Context, *leadership.Term) error { happened.add("failing"); return fail() })
					a.OnWon(func(context.Context, *leadership.Term) error { happened.add("left out"); return nil })
					var failed error
					a.OnTakeoverFailed(func(err error) { failed = err; happened.add("failed") })
					a.OnTakeoverFailed(func(error) { happened.add("failed too") })
					a.OnLost(func(_ context.Context, leader store.Leader) { happened.add("lost to %s", leader.Value) })
					follower := w.follower(w.open(), nil)
					follower.OnNewLeader(func(leader leadership.Leader) { happened.add("new leader %s", leader.Value) })
					follower.Start()

					go func() { time.Sleep(time.Nanosecond); b.RunForElection() }() // b's ballot is the second
					drive(a)
					w.at(time.Minute)
					require.Equal(w, []string{"first", "failing", "failed", "failed too"}, happened.all()[:4])
					require.ErrorContains(w, failed, "the disk is full")
					require.ErrorContains(w, failed, "takeover failed")
					if failure == "error" {
						require.ErrorIs(w, failed, errTakeover)
					}
					require.ElementsMatch(w, []string{"new leader b", "lost to b"}, happened.all()[4:])
					require.False(w, a.IsLeader())
					require.True(w, b.IsLeader())
					require.Equal(w, []string{"b", "a"}, w.ballots(), "at the back of the queue")
				})
			})
		}
	}
}

func TestTakeoverThatFailsIsReportedOnTheChannel(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		c.OnWon(func(context.Context, *leadership.Term) error { return errTakeover })
		elected, errs := c.RunForElection()
		require.False(w, <-elected)
		require.ErrorIs(w, <-errs, errTakeover)
		w.at(time.Minute)
		require.True(w, pending(elected), "it has not won as far as the channel knows")
	})
}

// Takeover-failed is called with the reason whatever kept the candidate from acknowledging, and only then.
func TestTakeoverFailedCallbacks(t *testing.T) {
	type lead = func(ctx context.Context, term *leadership.Term) error
	for name, test := range map[string]struct {
		lead   lead
		reason error // nil where it is not called
	}{
		"lead fails before it acknowledges": {func(context.Context, *leadership.Term) error { return errTakeover }, errTakeover},
		"an error of another election": {func(context.Context, *leadership.Term) error {
			return errors.Join(errTakeover, leadership.ErrStopped)
		}, errTakeover},
		"lead fails after it acknowledged": {func(ctx context.Context, term *leadership.Term) error {
			return errors.Join(term.Acknowledge(ctx), errTakeover)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				c := w.candidate(w.open(), "a", nil)
				var failed []error
				c.OnTakeoverFailed(func(err error) { failed = append(failed, err) })
				turns := 0
				result := async(func() error {
					return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
						if turns++; turns > 1 {
							return serve(ctx, term)
						}
						return test.lead(ctx, term)
					})
				})
				w.at(time.Minute)
				c.Stop()
				require.NoError(w, <-result)
				if test.reason == nil {
					require.Empty(w, failed)
					return
				}
				require.Len(w, failed, 1)
				require.ErrorIs(w, failed[0], test.reason)
			})
		})
	}
}

func TestTakeoverFailsWhenTheTermEndsMeanwhile(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		var failed []error
		c.OnTakeoverFailed(func(err error) { failed = append(failed, err) })
		c.OnWon(func(ctx context.Context, _ *leadership.Term) error {
			st.Faults().Cut()
			<-ctx.Done() // it ends with the term
			require.Equal(w, valid, w.now())
			return nil
		})
		c.RunForElection()
		w.at(ttl)
		require.Len(w, failed, 1)
		require.ErrorIs(w, failed[0], leadership.ErrLost)
		require.Empty(w, w.leader())
	})
}

// A panic in a takeover-failed callback stops neither the others nor the candidate.
func TestTakeoverFailedCallbackThatPanics(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		turns := 0
		c.OnWon(func(context.Context, *leadership.Term) error {
			if turns++; turns == 1 {
				return errTakeover
			}
			return nil
		})
		var happened diary
		c.OnTakeoverFailed(func(error) { panic("boom") })
		c.OnTakeoverFailed(func(error) { happened.add("called all the same") })
		c.RunForElection()
		w.at(time.Minute)
		require.Equal(w, []string{"called all the same"}, happened.all())
		require.True(w, c.IsLeader())
		require.Equal(w, "a", w.leader())
	})
}

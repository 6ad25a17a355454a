package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// drives are the two ways to drive a candidate that call its callbacks.
var drives = map[string]func(c *leadership.Candidate){
	"Run":            func(c *leadership.Candidate) { go func() { _ = c.Run(background, leadership.Lead) }() },
	"RunForElection": func(c *leadership.Candidate) { c.RunForElection() },
}

// The acknowledgement waits for all won callbacks, which are called in the order in which they were registered.
func TestWonCallbacksComeBeforeTheAcknowledgement(t *testing.T) {
	for name, drive := range drives {
		virtualRun(t, name, func(w *world) {
			var happened diary
			c := w.candidate(w.open(), "a", nil)
			for _, callback := range []string{"first", "second", "third"} {
				c.OnWon(func(ctx context.Context, term *leadership.Term) error {
					require.True(w, c.IsLeader())
					require.Equal(w, ctx, term.Context())
					require.Empty(w, w.leader())
					time.Sleep(10 * ttl) // virtual time: longer than a session without renewals
					require.Empty(w, w.leader())
					happened.add("%s", callback)
					return nil
				})
			}
			loser := w.candidate(w.open(), "b", nil)
			loser.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("b lost to %s", leader.Value) })
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

// A won callback fails or panics: the callbacks after it are not called, nothing is acknowledged, the takeover-failed
// callbacks are called, and the candidate goes to the back of the queue.
func TestWonCallbackThatFails(t *testing.T) {
	for failure, fail := range map[string]func() error{
		"error": func() error { return errTakeover },
		"panic": func() error { panic("the disk is full") },
	} {
		for name, drive := range drives {
			virtualRun(t, failure+" in "+name, func(w *world) {
				var happened diary
				a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
				a.OnWon(func(context.Context, *leadership.Term) error { happened.add("first"); return nil })
				a.OnWon(func(context.Context, *leadership.Term) error { happened.add("failing"); return fail() })
				a.OnWon(func(context.Context, *leadership.Term) error { happened.add("left out"); return nil })
				var failed error
				a.OnTakeoverFailed(func(err error) { failed = err; happened.add("failed") })
				a.OnTakeoverFailed(func(error) { happened.add("failed too") })
				a.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("lost to %s", leader.Value) })
				follower := w.follower(w.open(), nil)
				follower.OnNewLeader(func(_ context.Context, leader leadership.Leader) { happened.add("new leader %s", leader.Value) })
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
		}
	}
}

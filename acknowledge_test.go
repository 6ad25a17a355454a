package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// The acknowledgement exists with its value. One process can show no more of it.
func TestAcknowledgeTellsFollowers(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "host:\x00\xff", nil)
		follower := w.follower(w.open(), nil)
		follower.Start()
		term := w.campaign(c)
		synctest.Wait()
		_, led := follower.Leader()
		require.False(w, led)
		require.False(w, term.Acknowledged())
		require.NoError(w, term.Acknowledge(background))
		require.True(w, term.Acknowledged())
		synctest.Wait()
		leader, led := follower.Leader()
		require.True(w, led)
		require.Equal(w, "host:\x00\xff", leader.Value, "exactly the bytes")
		require.Positive(w, leader.Revision)

		sent := st.Faults().Requests()
		require.NoError(w, term.Acknowledge(background))
		synctest.Wait()
		again, _ := follower.Leader()
		require.Equal(w, leader, again)
		require.Equal(w, sent, st.Faults().Requests(), "a second call does nothing")
	})
}

// The error names the cause of the term's end also if the term ends during the call.
func TestAcknowledgeSaysWhyTheTermEnded(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		for range often(500) {
			term := w.campaign(c)
			acknowledging := async(func() error {
				for {
					if err := term.Acknowledge(background); err != nil {
						return err
					}
				}
			})
			require.NoError(w, term.Withdraw(background))
			if err := <-acknowledging; err != nil {
				require.ErrorIs(w, err, leadership.ErrNotElected)
				require.ErrorIs(w, err, leadership.ErrResigned, "it says why")
				require.NotErrorIs(w, err, leadership.ErrLost, "it resigned")
			}
		}
	})
}

func TestAcknowledgeEndsWithItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		st, c, term := w.elected()
		st.Faults().Cut()
		ctx, cancel := context.WithTimeoutCause(background, time.Second, errChangedMind)
		defer cancel()
		require.ErrorIs(w, term.Acknowledge(ctx), errChangedMind)
		require.Equal(w, time.Second, w.now())
		require.True(w, c.IsLeader(), "the term goes on")
		st.Faults().Heal()
		require.NoError(w, term.Acknowledge(background))
		require.Equal(w, "a", w.leader())
	})
	virtual(t, func(w *world) { // and with the term
		st, c, term := w.elected()
		st.Faults().Cut()
		acknowledging := async(func() error { return term.Acknowledge(background) })
		w.at(time.Second)
		require.True(w, pending(acknowledging))
		c.Resign()
		err := <-acknowledging
		require.ErrorIs(w, err, leadership.ErrNotElected)
		require.ErrorIs(w, err, leadership.ErrResigned)
		require.Equal(w, time.Second, w.now())
		st.Faults().Heal()
	})
}

// If the outcome is unknown, Acknowledge tries again, with a log. The acknowledgement exists once.
func TestAcknowledgeTriesAgain(t *testing.T) {
	for _, failure := range []error{store.ErrUnknownOutcome, store.ErrUnavailable} {
		virtualRun(t, failure.Error(), func(w *world) {
			tries := 0
			fake := changing(w.open(), func(b *fakeBallot) {
				b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
					if tries++; tries <= 3 {
						return store.Leader{}, &store.Error{Op: "acknowledge", Err: failure}
					}
					return b.Ballot.Acknowledge(ctx, value)
				}
			})
			var waits []time.Duration
			require.NoError(w, w.campaign(w.candidate(fake, "a", trying(&waits, failure))).Acknowledge(background))
			require.Equal(w, "a", w.leader())
			require.Len(w, waits, 3)
			require.Equal(w, waits[0]+waits[1]+waits[2], w.now())
		})
	}
}

// If the ballot was lost before the outcome of the request was known, Acknowledge does not try again.
func TestAcknowledgeOfALostBallotIsNotTriedAgain(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(context.Context, string) (store.Leader, error) {
				return store.Leader{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, store.ErrLost)
			}
		}), "a", withoutErrors(w))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(w, w.campaign(c).Acknowledge(ctx), leadership.ErrLost)
		require.False(w, c.IsLeader(), "even if nothing else has noticed")
		require.Zero(w, w.now())
	})
}

// If Acknowledge finds that the ballot is lost, that is the cause of the term's end, not a resignation. It is no
// failure to report, or to back off after.
func TestAcknowledgeLearnsThatTheBallotIsLost(t *testing.T) {
	virtual(t, func(w *world) {
		var terms atomic.Int32
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.lost = make(chan struct{})
			b.acknowledge = func(context.Context, string) (store.Leader, error) {
				close(b.lost)
				return store.Leader{}, store.ErrLost
			}
		}), "a", &leadership.CandidateOptions{Events: func(e leadership.Event) {
			switch {
			case e.Kind == leadership.TermEnded && (errors.Is(e.Err, leadership.ErrLost) || errors.Is(e.Err, leadership.ErrStopped)):
				terms.Add(1)
			case e.Err != nil:
				t.Errorf("%v: %v", e.Kind, e.Err)
			}
		}})
		run(c, leadership.Lead)
		w.at(time.Minute)
		require.Greater(w, terms.Load(), int32(10))
	})
}

// A term that goes on for a TTL without an acknowledgement is logged once, however the candidate is driven: followers
// know of no leader.
func TestMissingAcknowledgementIsToldOnce(t *testing.T) {
	const warning = "followers do not know of this leader until the takeover is acknowledged"
	hold := func(ctx context.Context, _ *leadership.Term) error { <-ctx.Done(); return nil }
	for name, test := range map[string]struct {
		opts  leadership.CandidateOptions
		drive func(w *world, c *leadership.Candidate)
		times int
	}{
		"Run":      {drive: func(_ *world, c *leadership.Candidate) { _ = c.Run(background, hold) }, times: 1},
		"Campaign": {drive: func(_ *world, c *leadership.Candidate) { campaignOnce(c); campaignOnce(c) }, times: 1},
		"acknowledged in time": {drive: func(_ *world, c *leadership.Candidate) {
			_ = c.Run(background, func(ctx context.Context, term *leadership.Term) error {
				time.Sleep(ttl - 1) // virtual time: the last moment before the warning
				return serve(ctx, term)
			})
		}},
		"by itself": {drive: func(_ *world, c *leadership.Candidate) { run(c, leadership.Lead) }},
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			test.opts.Logger = log.logger()
			c := w.candidate(w.open(), "a", &test.opts)
			go test.drive(w, c)
			w.at(ttl - 1)
			require.NotContains(w, log.String(), warning)
			w.at(ttl + ttl/4)
			require.Equal(w, test.times, strings.Count(log.String(), warning), "%s", log.String())
			w.at(3 * ttl)
			c.Resign()
			w.at(10 * ttl)
			require.True(w, c.IsLeader())
			require.Equal(w, test.times, strings.Count(log.String(), warning), "once for all terms")
			halt(c)
		})
	}
}

// Two calls at once, both of which the store has answered: the acknowledgement is told once.
func TestAcknowledgeByTwoIsToldOnce(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		both := make(chan struct{})
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
				leader, err := b.Ballot.Acknowledge(ctx, value)
				<-both
				return leader, err
			}
		}), "a", telling(&happened, leadership.Acknowledged))
		term := w.campaign(c)
		first := async(func() error { return term.Acknowledge(background) })
		second := async(func() error { return term.Acknowledge(background) })
		require.True(w, pending(first))
		close(both)
		require.NoError(w, <-first)
		require.NoError(w, <-second)
		synctest.Wait()
		require.Equal(w, []string{"acknowledged"}, happened.all())
	})
}

// TestAcknowledgeWithAnEndedContext returns its cause, tells the followers nothing, and reports no failure. If the context
// had ended before, nothing is sent.
func TestAcknowledgeWithAnEndedContext(t *testing.T) {
	virtual(t, func(w *world) {
		asked := 0
		ctx, cancel := context.WithCancelCause(background)
		fake := changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
				asked++
				cancel(errChangedMind)
				require.Error(w, ctx.Err())
				return store.Leader{}, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
			}
		})
		c := w.candidate(fake, "a", withoutErrors(w))
		term := w.campaign(c)
		for range 2 {
			require.Equal(w, errChangedMind, term.Acknowledge(ctx))
			require.Equal(w, 1, asked)
		}
		require.Zero(w, w.now(), "it does not wait")
		require.True(w, c.IsLeader())
		require.Empty(w, w.leader())
	})
}

// If followers might have been told, the error of Acknowledge matches ErrUnknownOutcome: no answer came, or the context ended
// first. It does not if the store has not written it.
func TestAcknowledgeWhoseOutcomeIsUnknown(t *testing.T) {
	written := func(b *fakeBallot, ctx context.Context, value string) {
		_, err := b.Ballot.Acknowledge(context.WithoutCancel(ctx), value)
		if err != nil {
			panic(err)
		}
	}
	for name, test := range map[string]struct {
		acknowledge func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error)
		unknown     bool
	}{
		"its answer is lost": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			return store.Leader{}, store.ErrUnknownOutcome
		}, true},
		"its answer is lost, and then the service": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			b.acknowledge = func(context.Context, string) (store.Leader, error) { return store.Leader{}, store.ErrUnavailable }
			written(b, ctx, value)
			return store.Leader{}, store.ErrUnknownOutcome
		}, true},
		"its context ends": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			<-ctx.Done()
			return store.Leader{}, ctx.Err()
		}, true},
		"it was not sent": {func(_ *fakeBallot, ctx context.Context, _ string) (store.Leader, error) {
			<-ctx.Done()
			return store.Leader{}, store.ErrUnavailable
		}, false},
		"it is refused": {func(*fakeBallot, context.Context, string) (store.Leader, error) {
			return store.Leader{}, store.ErrDenied
		}, false},
		"the ballot is lost": {func(*fakeBallot, context.Context, string) (store.Leader, error) {
			return store.Leader{}, store.ErrLost
		}, false},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(changing(w.open(), func(b *fakeBallot) {
				b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) { return test.acknowledge(b, ctx, value) }
			}), "a", nil)
			term := w.campaign(c)
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			err := term.Acknowledge(ctx)
			require.Error(w, err)
			require.Equal(w, test.unknown, errors.Is(err, store.ErrUnknownOutcome), "%v", err)
		})
	}
}

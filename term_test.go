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

func TestTermMovesWithRenewals(t *testing.T) {
	virtual(t, func(w *world) {
		st, _, term := w.elected()
		is := func(deadline, remaining time.Duration) {
			w.Helper()
			require.Equal(w, remaining, term.Remaining())
			require.Equal(w, deadline, w.now()+remaining)
		}
		is(valid, valid)
		w.at(2 * time.Second)
		is(valid, valid-2*time.Second)
		w.at(renew)
		is(renew+valid, valid)
		w.at(2 * renew)
		is(2*renew+valid, valid)
		st.Faults().Cut()
		w.at(2*renew + valid - 1)
		is(2*renew+valid, 1)
		w.at(2*renew + valid)
		require.Zero(w, term.Remaining(), "the term is over")
		st.Faults().Heal()
		w.at(2*renew + valid + ttl)
		require.Zero(w, term.Remaining(), "and no renewal revives it")
	})
}

func TestTermContextSaysWhyItEnded(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, c *leadership.Candidate, term *leadership.Term, st *fakeStore)
		cause error
	}{
		"withdrawn": {func(w *world, _ *leadership.Candidate, term *leadership.Term, _ *fakeStore) {
			require.NoError(w, term.Withdraw(background))
		}, leadership.ErrResigned},
		"resigned by the term": {func(w *world, _ *leadership.Candidate, term *leadership.Term, _ *fakeStore) {
			term.End(nil)
			require.Equal(w, []string{"a"}, w.ballots(), "the ballot stands until it is given back")
		}, leadership.ErrResigned},
		"resigned by the candidate": {func(w *world, c *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			c.Resign()
		}, leadership.ErrResigned},
		"stopped": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			c.Stop()
		}, leadership.ErrStopped},
		"ballot removed": {func(w *world, _ *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			w.service.Clear(election)
		}, leadership.ErrLost},
		"store closed": {func(w *world, _ *leadership.Candidate, _ *leadership.Term, st *fakeStore) {
			require.NoError(w, st.Close())
		}, leadership.ErrLost},
	} {
		virtualRun(t, name, func(w *world) {
			st := &fakeStore{Store: w.open()}
			c := w.candidate(st, "a", nil)
			term := w.campaign(c)
			require.NoError(w, context.Cause(term.Context()))
			require.True(w, c.IsLeader())
			test.end(w, c, term, st)
			synctest.Wait()
			require.ErrorIs(w, context.Cause(term.Context()), test.cause)
			require.False(w, c.IsLeader())
			require.Zero(w, term.Remaining())
			require.NoError(w, term.Withdraw(background))
		})
	}
}

// Withdraw returns an error if it could not confirm that the ballot was removed, and so does a second call. Once it is
// confirmed, a call sends nothing.
func TestTermWithdrawEndsWithItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		st, c, term := w.elected()
		st.Faults().Cut()
		for i := range 2 {
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			require.ErrorIs(w, term.Withdraw(ctx), context.DeadlineExceeded)
			require.Equal(w, time.Duration(i+1)*time.Second, w.now())
			require.False(w, c.IsLeader())
			require.Equal(w, []string{"a"}, w.ballots())
		}
		st.Faults().Heal()
		synctest.Wait()
		require.Empty(w, w.ballots(), "the store went on in the background")
		require.NoError(w, term.Withdraw(background))
		synctest.Wait() // its watches have gone
		sent := st.Faults().Requests()
		require.NoError(w, term.Withdraw(background))
		require.Equal(w, sent, st.Faults().Requests())
	})
}

// A second Resign, after the candidate has stood again, leaves the newer ballot alone.
func TestTermWithdrawLeavesALaterTermAlone(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		old := w.campaign(c)
		st.Faults().LoseReplies()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.Error(w, old.Withdraw(ctx))
		st.Faults().Heal()
		w.campaign(c)
		require.NoError(w, old.Withdraw(background))
		synctest.Wait()
		require.True(w, c.IsLeader())
		require.Equal(w, []string{"a"}, w.ballots())
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrRunning, "the later term is not given back")
	})
}

// The same for Resign, from inside the leader's function.
func TestTermResignLeavesALaterTermAlone(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		var terms []*leadership.Term
		ended := make(chan error, 1)
		result := run(c, func(ctx context.Context, term *leadership.Term) error {
			switch terms = append(terms, term); len(terms) {
			case 1:
				return nil
			case 2:
				terms[0].End(nil)
				ended <- context.Cause(ctx)
			}
			return serve(ctx, term)
		})
		require.NoError(w, <-ended, "resigning the first term has ended the second")
		require.True(w, c.IsLeader())
		w.stops(c, result)
	})
}

// The ballot of a term from Campaign stands until the caller's work has stopped and the caller calls Resign.
func TestTermKeepsItsBallotUntilItIsGivenBack(t *testing.T) {
	virtual(t, func(w *world) {
		fake := changing(w.open(), func(b *fakeBallot) { b.lease = store.NewLease(); b.lease.Renew(store.Now(), valid) })
		a, b := w.candidate(fake, "a", nil), w.candidate(w.open(), "b", nil)
		term := w.campaign(a)
		waiting := campaigning(background, b)
		<-term.Context().Done() // the fake lease ended; the session below is renewed
		w.at(10 * ttl)
		require.True(w, pending(waiting))
		require.Equal(w, []string{"a", "b"}, w.ballots())
		require.NoError(w, term.Withdraw(background))
		require.NoError(w, <-waiting)
	})
}

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
			c := w.candidate(fake, "a", &leadership.CandidateOptions{Events: hooks{
				Error: func(name string, err error, in time.Duration) {
					require.Equal(w, election, name)
					require.ErrorIs(w, err, failure)
					waits = append(waits, in)
				},
			}.tell})
			require.NoError(w, w.campaign(c).Acknowledge(background))
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
		}), "a", &leadership.CandidateOptions{Events: hooks{
			Error: func(_ string, err error, _ time.Duration) { t.Errorf("reported as a failure: %v", err) },
			TermEnded: func(_ string, _ uint64, cause error) {
				terms.Add(1)
				if !errors.Is(cause, leadership.ErrLost) && !errors.Is(cause, leadership.ErrStopped) {
					t.Errorf("the term ended with %q", cause)
				}
			},
		}.tell})
		run(c, leadership.Lead)
		w.at(time.Minute)
		require.Greater(w, terms.Load(), int32(10))
	})
}

func TestAcknowledgeReturnsWhatCannotBeCured(t *testing.T) {
	failure := errors.New("disk full")
	virtual(t, func(w *world) {
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(context.Context, string) (store.Leader, error) { return store.Leader{}, failure }
		}), "a", nil)
		require.ErrorIs(w, w.campaign(c).Acknowledge(background), failure)
		require.Zero(w, w.now())
		require.True(w, c.IsLeader(), "the caller decides")
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
		}), "a", &leadership.CandidateOptions{Events: hooks{
			Acknowledged: func(string, uint64, leadership.Leader) { happened.add("acknowledged") },
		}.tell})
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

// Term returns the term for as long as the candidate leads.
func TestTermOfTheCandidate(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		require.Nil(w, termOf(c))
		run(c, leadership.Lead)
		synctest.Wait()
		first := termOf(c)
		require.NotNil(w, first)
		list, err := w.observer.Ballots(background, election)
		require.NoError(w, err)
		require.Equal(w, list[0].Token, first.Token())
		c.Resign()
		require.Nil(w, termOf(c))
		w.until(c.IsLeader)
		require.Greater(w, termOf(c).Token(), first.Token())
		st.Faults().Cut()
		w.at(w.now() + valid)
		require.Nil(w, termOf(c))
	})
	virtual(t, func(w *world) { // the lease is over, and nothing of ours has run
		st := w.open()
		resumed := make(chan struct{})
		c := w.candidate(changing(st, func(b *fakeBallot) { b.frozen = resumed }), "a", nil)
		w.Cleanup(func() { close(resumed) })
		w.campaign(c)
		st.Faults().Cut()
		w.at(valid)
		require.Nil(w, termOf(c))
	})
}

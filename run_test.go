package leadership_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestCampaignEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, c *leadership.Candidate, cancel context.CancelCauseFunc)
		want  error
		again error // of the next call with the same context; nil: it leads
	}{
		"with its context": {func(_ *world, _ *leadership.Candidate, cancel context.CancelCauseFunc) {
			cancel(errChangedMind)
		}, errChangedMind, errChangedMind},
		"with Stop": {func(_ *world, c *leadership.Candidate, _ context.CancelCauseFunc) {
			halt(c)
		}, leadership.ErrStopped, leadership.ErrStopped},
		"when its ballot is lost": {func(w *world, _ *leadership.Candidate, _ context.CancelCauseFunc) {
			w.service.Clear(election)
		}, leadership.ErrLost, nil},
	} {
		virtualRun(t, name, func(w *world) {
			w.lead(w.open(), "a")
			b := w.candidate(w.open(), "b", nil)
			ctx, cancel := context.WithCancelCause(background)
			defer cancel(nil)
			waiting := campaigning(ctx, b)
			require.True(w, pending(waiting))
			test.end(w, b, cancel)
			require.ErrorIs(w, <-waiting, test.want)
			require.NotContains(w, w.ballots(), "b", "the ballot is withdrawn first")
			require.False(w, b.IsLeader())
			if test.again == nil {
				w.campaign(b)
				require.True(w, b.IsLeader(), "standing again is allowed")
				return
			}
			_, err := b.Campaign(ctx)
			require.ErrorIs(w, err, test.again)
			require.Equal(w, []string{"a"}, w.ballots())
		})
	}
}

func TestCampaignRefusesASecondOne(t *testing.T) {
	virtual(t, func(w *world) {
		term := w.lead(w.open(), "a")
		c := w.candidate(w.open(), "b", nil)
		var second *leadership.Term
		waiting := async(func() (err error) { second, err = c.Campaign(background); return err })
		require.True(w, pending(waiting))
		refused := func() {
			w.Helper()
			_, err := c.Campaign(background)
			require.ErrorIs(w, err, leadership.ErrRunning)
			require.ErrorIs(w, c.Run(background, leadership.Lead), leadership.ErrRunning)
		}
		refused() // while it waits
		require.NoError(w, term.Withdraw(background))
		require.NoError(w, <-waiting)
		refused() // while it leads
		w.service.Clear(election)
		synctest.Wait()
		require.False(w, c.IsLeader())
		refused() // while its term is over and its ballot still stands
		c.Resign()
		refused() // only the term's owner removes the ballot
		require.NoError(w, second.Withdraw(background))
		w.campaign(c)
		c.Stop()
		require.ErrorIs(w, c.Run(background, leadership.Lead), leadership.ErrStopped)
	})
}

// Being first is not enough while the session is not confirmed.
func TestCampaignWaitsForTheLease(t *testing.T) {
	setUp := func(w *world) (c *leadership.Candidate, b *fakeBallot) {
		b = &fakeBallot{lease: store.NewLease(), lost: make(chan struct{})}
		st := changing(w.open(), func(made *fakeBallot) { b.Ballot, *made = made.Ballot, *b; made.Ballot = b.Ballot })
		return w.candidate(st, "a", nil), b
	}
	virtualRun(t, "until it is confirmed", func(w *world) {
		c, b := setUp(w)
		waiting := campaigning(background, c)
		w.at(time.Second)
		b.lease.Renew(store.Now(), -time.Second) // too late to count
		require.True(w, pending(waiting))
		require.False(w, c.IsLeader())
		b.lease.Renew(store.Now(), valid)
		require.NoError(w, <-waiting)
		require.True(w, c.IsLeader())
	})
	virtualRun(t, "or the ballot is lost", func(w *world) {
		c, b := setUp(w)
		waiting := campaigning(background, c)
		require.True(w, pending(waiting))
		close(b.lost)
		require.ErrorIs(w, <-waiting, leadership.ErrLost)
		require.False(w, c.IsLeader())
	})
	virtualRun(t, "or the context ends", func(w *world) {
		c, _ := setUp(w)
		ctx, cancel := context.WithTimeoutCause(background, time.Second, errChangedMind)
		defer cancel()
		_, err := c.Campaign(ctx)
		require.ErrorIs(w, err, errChangedMind)
		require.Equal(w, time.Second, w.now(), "no lease, nothing to wait for")
		synctest.Wait()
		require.Empty(w, w.ballots(), "the store went on by itself")
	})
}

// A ballot that might be left is logged, unless the store was closed: then the session has ended, and the ballot with
// it.
func TestCampaignSaysIfTheBallotMightBeLeft(t *testing.T) {
	for failure, logged := range map[error]bool{nil: false, store.ErrClosed: false, store.ErrUnknownOutcome: true} {
		virtual(t, func(w *world) {
			var log journal
			st := changing(w.open(), func(b *fakeBallot) {
				b.wait = func(context.Context) error { return store.ErrUnavailable }
				b.withdraw = func(ctx context.Context) error { return errors.Join(b.Ballot.Withdraw(ctx), failure) }
			})
			_, err := w.candidate(st, "a", log.heard(nil)).Campaign(background)
			require.ErrorIs(w, err, store.ErrUnavailable)
			synctest.Wait()
			require.Equal(w, logged, strings.Contains(log.String(), "could not confirm that the ballot was removed"), failure)
		})
	}
}

func TestRunLeadsAgainAndAgain(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		var tokens []uint64
		w.turns(c, 5, func(ctx context.Context, term *leadership.Term) error {
			require.True(w, c.IsLeader())
			require.NoError(w, ctx.Err())
			require.NoError(w, term.Acknowledge(ctx))
			tokens = append(tokens, term.Token())
			return nil
		})
		require.Less(w, w.now(), 100*time.Millisecond, "next to nothing is waited for after a lead without an error")
		require.IsIncreasing(w, tokens)
	})
}

func TestRunEndsWithStopContextOrStore(t *testing.T) {
	for _, when := range []string{"waiting", "leading"} {
		for name, test := range map[string]struct {
			end   func(c *leadership.Candidate, cancel context.CancelCauseFunc, close func() error)
			want  error // nil for nil
			cause error // of a term that it ended
		}{
			"Stop": {func(c *leadership.Candidate, _ context.CancelCauseFunc, _ func() error) {
				halt(c)
			}, nil, leadership.ErrStopped},
			"context": {func(_ *leadership.Candidate, cancel context.CancelCauseFunc, _ func() error) {
				cancel(errChangedMind)
			}, errChangedMind, leadership.ErrStopped},
			"store closed": {func(_ *leadership.Candidate, _ context.CancelCauseFunc, close func() error) {
				_ = close()
			}, leadership.ErrClosed, leadership.ErrLost},
		} {
			virtualRun(t, name+" while "+when, func(w *world) {
				if when == "waiting" {
					w.lead(w.open(), "other")
				}
				st := w.open()
				c := w.candidate(st, "a", nil)
				ctx, cancel := context.WithCancelCause(background)
				defer cancel(nil)
				var cause error
				result := async(func() error {
					return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
						_ = serve(ctx, term)
						cause = context.Cause(ctx)
						return errors.New("what lead returns is the consequence")
					})
				})
				require.True(w, pending(result))
				require.Equal(w, when == "leading", c.IsLeader())
				test.end(c, cancel, st.Close)
				if err := <-result; test.want == nil {
					require.NoError(w, err)
				} else {
					require.ErrorIs(w, err, test.want)
				}
				require.Less(w, w.now(), 10*time.Millisecond)
				require.False(w, c.IsLeader())
				require.NotContains(w, w.ballots(), "a")
				if when == "leading" {
					require.ErrorIs(w, cause, test.cause)
				}
			})
		}
	}
}

// The session is renewed until lead returns, so that no other candidate leads. Two terms of one candidate never
// overlap.
func TestRunWaitsForTheLeadersFunction(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		a, b := w.candidate(st, "a", nil), w.candidate(w.open(), "b", nil)
		returns := make(chan struct{})
		running := 0
		first := run(a, func(ctx context.Context, term *leadership.Term) error {
			running++
			defer func() { running-- }()
			require.Equal(w, 1, running)
			err := term.Acknowledge(ctx)
			<-returns // it ignores its context
			return err
		})
		require.True(w, pending(first))
		second := run(b, serve)
		require.True(w, pending(second))

		a.Resign()
		require.Zero(w, w.now())
		require.False(w, a.IsLeader(), "the term is over at once")
		w.at(10 * ttl)
		require.False(w, b.IsLeader())
		require.Equal(w, "a", w.leader())
		require.Equal(w, []string{"a", "b"}, w.ballots(), "the session was renewed, the ballot kept")

		close(returns)
		synctest.Wait()
		require.True(w, b.IsLeader())
		w.until(func() bool { return len(w.ballots()) == 2 })
		require.Equal(w, []string{"b", "a"}, w.ballots())
	})
}

// An error that lead returns after its term is over is logged. It is no event.
func TestRunLogsAFailureAfterTheTerm(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		c := w.candidate(w.open(), "a", log.heard(errTakeover))
		result := run(c, func(ctx context.Context, _ *leadership.Term) error {
			<-ctx.Done()
			return errTakeover
		})
		synctest.Wait()
		w.stops(c, result)
		require.Contains(w, log.String(), "failed after its term had ended")
		require.Contains(w, log.String(), errTakeover.Error())
		require.NotContains(w, log.String(), "event:")
	})
}

// A caller may end its context with any cause. That is not a failure of the store.
func TestRunEndsWithACauseThatLooksPermanent(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		var log journal
		c := w.candidate(w.open(), "a", log.heard(store.ErrClosed))
		ctx, cancel := context.WithCancelCause(background)
		result := async(func() error { return c.Run(ctx, serve) })
		require.True(w, pending(result))
		cancel(store.ErrClosed)
		require.ErrorIs(w, <-result, store.ErrClosed)
		require.NotContains(w, log.String(), "permanent")
	})
}

// foreignContext is of a type that package context does not know: each context derived from it costs a goroutine until
// that is cancelled.
type foreignContext struct {
	context.Context
	done chan struct{}
}

func (c *foreignContext) Done() <-chan struct{} { return c.done }

// A call that has returned keeps nothing of its context: the world finds goroutines that are left.
func TestContextsAreReleased(t *testing.T) {
	virtual(t, func(w *world) {
		ctx := &foreignContext{background, make(chan struct{})}
		c := w.candidate(w.open(), "a", nil)
		term, err := c.Campaign(ctx)
		require.NoError(w, err)
		require.NoError(w, term.Acknowledge(ctx))
		require.NoError(w, term.Withdraw(ctx))
		ended, cancel := context.WithCancel(ctx)
		term, err = c.Campaign(ended)
		require.NoError(w, err)
		cancel()
		w.at(ttl)
		require.NoError(w, term.Context().Err(), "it has no effect on the term")
		require.NoError(w, term.Withdraw(ctx))
		require.NoError(w, c.Run(ctx, func(context.Context, *leadership.Term) error {
			c.Stop()
			return nil
		}))
	})
}

// A candidate that is idle keeps nothing of its last term, nor the values of its caller's context.
func TestIdleCandidateKeepsNothingOfItsTerm(t *testing.T) {
	type key struct{}
	for name, drive := range map[string]func(w *world, ctx context.Context, c *leadership.Candidate){
		"Campaign": func(w *world, ctx context.Context, c *leadership.Candidate) {
			term, err := c.Campaign(ctx)
			require.NoError(w, err)
			require.NoError(w, term.Withdraw(background))
		},
		"Campaign, and Resign in vain": func(w *world, ctx context.Context, c *leadership.Candidate) {
			term, err := c.Campaign(ctx)
			require.NoError(w, err)
			ended, cancel := context.WithCancel(background)
			cancel()
			c.Resign()
			_ = term.Withdraw(ended)
		},
		"Run": func(w *world, ctx context.Context, c *leadership.Candidate) {
			ctx, cancel := context.WithCancel(ctx)
			require.ErrorIs(w, c.Run(ctx, func(context.Context, *leadership.Term) error {
				c.Resign()
				cancel()
				return nil
			}), context.Canceled)
		},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(w.open(), "a", nil)
			value := new([1 << 10]byte)
			held := weak.Make(value)
			ctx := context.WithValue(background, key{}, value)
			value = nil
			drive(w, ctx, c)
			ctx = nil
			time.Sleep(time.Hour) // a timer that was stopped keeps what it would have called until its time has come
			synctest.Wait()
			for range 3 {
				runtime.GC()
			}
			require.Nil(w, held.Value(), "the candidate keeps its caller's context")
			require.False(w, c.IsLeader())
			c.Resign()
		})
	}
}

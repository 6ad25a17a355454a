package leadership_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// serve is a leader's function that acknowledges and leads until the term ends.
func serve(ctx context.Context, term *leadership.Term) error {
	if err := term.Acknowledge(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestRunLeadsAgainAndAgain(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		var tokens []uint64
		enough := make(chan struct{})
		result := async(func() error {
			return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
				require.True(w, c.IsLeader())
				require.NoError(w, ctx.Err())
				require.NoError(w, term.Acknowledge(ctx))
				tokens = append(tokens, term.Token())
				if len(tokens) == 5 {
					close(enough)
					<-ctx.Done()
				}
				return nil
			})
		})
		<-enough
		require.Less(w, w.now(), 100*time.Millisecond, "next to nothing is waited for after a lead without an error")
		require.IsIncreasing(w, tokens)
		halt(c)
		require.NoError(w, <-result)
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
		first := async(func() error {
			return a.Run(background, func(ctx context.Context, term *leadership.Term) error {
				running++
				defer func() { running-- }()
				require.Equal(w, 1, running)
				err := term.Acknowledge(ctx)
				<-returns // it ignores its context
				return err
			})
		})
		require.True(w, pending(first))
		second := async(func() error { return b.Run(background, serve) })
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

// The context that ended one Run does not end the next one.
func TestRunAgainAfterItsContextEnded(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		ctx, cancel := context.WithCancelCause(background)
		result := async(func() error { return c.Run(ctx, serve) })
		require.True(w, pending(result))
		cancel(errChangedMind)
		require.ErrorIs(w, <-result, errChangedMind)
		require.ErrorIs(w, c.Run(ctx, serve), errChangedMind)
		result = async(func() error { return c.Run(background, serve) })
		w.at(ttl)
		require.True(w, c.IsLeader())
		require.True(w, pending(result))
	})
}

// An error that lead returns after its term is over is logged. It does not reach the Error hook.
func TestRunLogsAFailureAfterTheTerm(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		c := w.candidate(w.open(), "a", log.heard(errTakeover))
		result := async(func() error {
			return c.Run(background, func(ctx context.Context, _ *leadership.Term) error {
				<-ctx.Done()
				return errTakeover
			})
		})
		synctest.Wait()
		halt(c)
		require.NoError(w, <-result)
		require.Contains(w, log.String(), "failed after its term had ended")
		require.Contains(w, log.String(), errTakeover.Error())
		require.NotContains(w, log.String(), "hook:")
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
		c.OnNewLeader(func(context.Context, leadership.Leader) {})
		term, err := c.Campaign(ctx)
		require.NoError(w, err)
		require.NoError(w, term.Acknowledge(ctx))
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

package leadership_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// If the leader's function or a won callback fails, the term ends with ErrFailed, which wraps the error. The log, the
// hooks, the callbacks and the status say so; it is no resignation.
func TestTermThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		won  func() error
		lead func(ctx context.Context, term *leadership.Term) error
		err  error // nil if it is one that can't be matched
		text string
	}{
		"lead": {nil, func(ctx context.Context, term *leadership.Term) error {
			return errors.Join(term.Acknowledge(ctx), errTakeover)
		}, errTakeover, "the leader's function failed: the disk is full"},
		"won callback":            {func() error { return errTakeover }, serve, errTakeover, "the leader's function failed: takeover failed: the disk is full"},
		"won callback that exits": {func() error { panic("boom") }, serve, nil, "the leader's function failed: takeover failed: panic in a callback: boom"},
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			var mu sync.Mutex
			var causes, reported []error // guarded by mu
			keep := func(list *[]error) func(error) {
				return func(err error) {
					mu.Lock()
					defer mu.Unlock()
					*list = append(*list, err)
				}
			}
			c := w.candidate(w.open(), "a", &leadership.Options{Logger: log.logger(), Hooks: &leadership.Hooks{
				TermEnded: func(_ string, _ uint64, cause error) { keep(&causes)(cause) },
				Error:     func(_ string, err error, _ time.Duration) { keep(&reported)(err) },
			}})
			failed := true
			c.OnWon(func(context.Context, *leadership.Term) error {
				if failed && test.won != nil {
					return test.won()
				}
				return nil
			})
			c.OnTakeoverFailed(keep(&causes))
			c.OnTermEnded(func(term *leadership.Term, cause error) {
				require.Equal(w, context.Cause(term.Context()), cause)
				keep(&causes)(cause)
			})
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				if failed {
					return test.lead(ctx, term)
				}
				return serve(ctx, term)
			})
			w.at(time.Millisecond)
			failed = false
			want := 2
			if name != "lead" {
				want = 3
			}
			require.Len(w, causes, want)
			require.Len(w, reported, 1)
			for _, err := range append(causes, reported[0], c.Status().LastError) {
				require.ErrorIs(w, err, leadership.ErrFailed)
				require.NotErrorIs(w, err, leadership.ErrResigned)
				require.True(w, strings.HasPrefix(err.Error(), test.text), "%v", err)
				if test.err != nil {
					require.ErrorIs(w, err, test.err)
				}
			}
			require.Contains(w, log.String(), `msg="leadership ended" election=database/primary token=2 cause="the leader's function failed: `)
			w.until(c.IsLeader)
			w.stops(c, result)
		})
	}
}

// unnoticed elects a candidate whose term is over without anything that has noticed it.
func unnoticed(w *world, opts *leadership.Options, drive func(c *leadership.Candidate), over func(w *world)) *leadership.Candidate {
	w.Helper()
	frozen := make(chan struct{})
	c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.frozen = frozen }), "a", opts)
	w.Cleanup(func() { close(frozen) })
	drive(c)
	w.at(time.Second)
	require.True(w, c.IsLeader())
	over(w)
	return c
}

// A term that was over before anything noticed it was lost, whatever ends it then.
func TestTermThatWasOverUnnoticed(t *testing.T) {
	for how, over := range map[string]func(w *world){
		"lease": func(w *world) {
			w.stores[1].Faults().Cut()
			w.at(2 * ttl)
			w.stores[1].Faults().Heal()
		},
		"ballot": func(w *world) { w.service.Clear(election); synctest.Wait() },
	} {
		for what, end := range map[string]func(c *leadership.Candidate, fail func()){
			"Resign":     func(c *leadership.Candidate, _ func()) { c.Resign() },
			"Stop":       func(c *leadership.Candidate, _ func()) { c.Stop() },
			"lead fails": func(_ *leadership.Candidate, fail func()) { fail() },
		} {
			virtualRun(t, what+" after the "+how, func(w *world) {
				var causes []error
				failing := make(chan struct{})
				c := unnoticed(w, &leadership.Options{Hooks: &leadership.Hooks{
					TermEnded: func(_ string, _ uint64, cause error) { causes = append(causes, cause) },
				}}, func(c *leadership.Candidate) {
					run(c, func(ctx context.Context, _ *leadership.Term) error {
						select {
						case <-ctx.Done():
							return nil
						case <-failing:
							return errTakeover
						}
					})
				}, over)
				end(c, func() { close(failing) })
				synctest.Wait()
				require.Len(w, causes, 1)
				require.ErrorIs(w, causes[0], leadership.ErrLost)
				for _, err := range []error{leadership.ErrResigned, leadership.ErrStopped, leadership.ErrFailed} {
					require.NotErrorIs(w, causes[0], err)
				}
			})
		}
	}
}

// The takeover-failed callbacks are not called if followers might have been told: the outcome of an acknowledgement is
// not known, or one is under way. They are called if the store has not written it.
func TestTakeoverFailedIfFollowersMightKnow(t *testing.T) {
	written := func(b *fakeBallot, ctx context.Context, value string) {
		_, err := b.Ballot.Acknowledge(context.WithoutCancel(ctx), value)
		if err != nil {
			panic(err)
		}
	}
	for name, test := range map[string]struct {
		acknowledge func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error)
		lead        func(ctx context.Context, term *leadership.Term) error
		called      bool
	}{
		"its answer is lost": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			return store.Leader{}, store.ErrUnknownOutcome
		}, nil, false},
		"its answer is lost, and then the service": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			b.acknowledge = func(context.Context, string) (store.Leader, error) { return store.Leader{}, store.ErrUnavailable }
			written(b, ctx, value)
			return store.Leader{}, store.ErrUnknownOutcome
		}, nil, false},
		"its context ends": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			<-ctx.Done()
			return store.Leader{}, ctx.Err()
		}, nil, false},
		"it goes on": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			time.Sleep(time.Second)
			return store.Leader{}, store.ErrUnknownOutcome
		}, func(ctx context.Context, term *leadership.Term) error {
			go func() { _ = term.Acknowledge(ctx) }()
			synctest.Wait()
			return errTakeover
		}, false},
		"it was not sent": {func(_ *fakeBallot, ctx context.Context, _ string) (store.Leader, error) {
			<-ctx.Done()
			return store.Leader{}, store.ErrUnavailable
		}, nil, true},
		"it is refused": {func(*fakeBallot, context.Context, string) (store.Leader, error) {
			return store.Leader{}, store.ErrDenied
		}, nil, true},
		"the ballot is lost": {func(*fakeBallot, context.Context, string) (store.Leader, error) {
			return store.Leader{}, store.ErrLost
		}, nil, true},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(changing(w.open(), func(b *fakeBallot) {
				b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) { return test.acknowledge(b, ctx, value) }
			}), "a", nil)
			called, ended := 0, 0
			c.OnTakeoverFailed(func(error) { called++ })
			c.OnTermEnded(func(*leadership.Term, error) { ended++ })
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				defer c.Stop()
				if test.lead != nil {
					return test.lead(ctx, term)
				}
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err := term.Acknowledge(ctx)
				require.Error(w, err)
				return err
			})
			require.NoError(w, <-result)
			require.Equal(w, test.called, called == 1)
			require.Equal(w, 1, ended)
		})
	}
}

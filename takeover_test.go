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

// If the leader's function fails, the term ends with ErrFailed, which wraps the error. The log, the events and the status say
// so; it is no resignation. The same holds if the function has ended the term before.
func TestTermThatFails(t *testing.T) {
	for name, end := range map[string]func(term *leadership.Term){
		"lead": func(*leadership.Term) {},
		"End":  func(term *leadership.Term) { term.End(errTakeover) },
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			var causes, reported []error
			c := w.candidate(w.open(), "a", &leadership.CandidateOptions{Logger: log.logger(), Events: hooks{
				TermEnded: func(_ string, _ uint64, cause error) { causes = append(causes, cause) },
				Error:     func(_ string, err error, _ time.Duration) { reported = append(reported, err) },
			}.tell})
			failed := true
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				if failed {
					end(term)
					return errTakeover
				}
				return serve(ctx, term)
			})
			w.at(time.Millisecond)
			failed = false
			require.Len(w, causes, 1)
			require.Len(w, reported, 1)
			for _, err := range []error{causes[0], reported[0], c.Status().LastError} {
				require.ErrorIs(w, err, leadership.ErrFailed)
				require.ErrorIs(w, err, errTakeover)
				require.NotErrorIs(w, err, leadership.ErrResigned)
				require.EqualError(w, err, "the leader's function failed: the disk is full")
			}
			require.Contains(w, log.String(), `msg="leadership ended" election=database/primary token=2 cause="the leader's function failed: `)
			w.until(c.IsLeader)
			w.stops(c, result)
		})
	}
}

// If lead panics or ends its goroutine, the ballot is given back before that goes on in the caller of Run. The candidate can
// be used again.
func TestLeadThatExits(t *testing.T) {
	for exit, how := range exits {
		virtualRun(t, exit, func(w *world) {
			var ended error
			c := w.candidate(w.open(), "a", &leadership.CandidateOptions{Events: hooks{
				TermEnded: func(_ string, _ uint64, cause error) { ended = cause },
			}.tell})
			gone := make(chan any, 1)
			go func() {
				defer func() { gone <- recover() }()
				_ = c.Run(background, func(context.Context, *leadership.Term) error { how.leave(); return nil })
			}()
			if p := <-gone; exit == "panic" {
				require.Equal(w, "boom", p)
			}
			synctest.Wait()
			require.ErrorIs(w, ended, leadership.ErrFailed)
			require.ErrorContains(w, ended, "panicked or ended its goroutine")
			require.False(w, c.IsLeader())
			require.Empty(w, w.ballots())
			result := run(c, serve)
			require.True(w, pending(result))
			require.True(w, c.IsLeader())
		})
	}
}

// unnoticed elects a candidate whose term is over without anything that has noticed it.
func unnoticed(w *world, opts *leadership.CandidateOptions, drive func(c *leadership.Candidate), over func(w *world)) *leadership.Candidate {
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
				c := unnoticed(w, &leadership.CandidateOptions{Events: hooks{
					TermEnded: func(_ string, _ uint64, cause error) { causes = append(causes, cause) },
				}.tell}, func(c *leadership.Candidate) {
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

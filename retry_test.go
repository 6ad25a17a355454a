package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// trying returns options whose Events keeps when the next try after an error is due.
func trying(waits *[]time.Duration, want error) *leadership.CandidateOptions {
	return on(leadership.AttemptFailed, func(e leadership.Event) {
		if errors.Is(e.Err, want) {
			*waits = append(*waits, e.RetryIn)
		}
	})
}

// requireBackoff checks that each wait is random, between half and all of a bound that doubles up to five seconds.
func requireBackoff(t require.TestingT, waits []time.Duration) {
	bound := 100 * time.Millisecond
	for i, d := range waits {
		require.GreaterOrEqual(t, d, bound/2, "wait %d", i)
		require.Less(t, d, bound, "wait %d", i)
		bound = min(2*bound, 5*time.Second)
	}
}

func TestRunWaitsLongerAfterEachError(t *testing.T) {
	virtual(t, func(w *world) {
		var waits, instants []time.Duration
		w.turns(w.candidate(w.open(), "a", trying(&waits, errTakeover)), 12, func(context.Context, *leadership.Term) error {
			instants = append(instants, w.now())
			return errTakeover
		})
		requireBackoff(w, waits)
		for i, in := range waits {
			require.Equal(w, in, instants[i+1]-instants[i], "what the event said is what was waited")
		}
		require.Len(w, waits, 11)
	})
}

func TestRunForgetsErrorsAfterALongTurn(t *testing.T) {
	virtual(t, func(w *world) {
		var waits []time.Duration
		w.turns(w.candidate(w.open(), "a", trying(&waits, errTakeover)), 5, func(ctx context.Context, term *leadership.Term) error {
			require.NoError(w, term.Acknowledge(ctx))
			if len(waits) == 3 {
				time.Sleep(5*time.Second + 1)
			}
			return errTakeover
		})
		require.Len(w, waits, 4)
		requireBackoff(w, waits[:3])
		requireBackoff(w, waits[3:])
	})
}

// The first wait is between 50 and 100 ms. Of a thousand, the shortest and the longest are within a millisecond of
// these.
func TestRunFirstWait(t *testing.T) {
	virtual(t, func(w *world) {
		var waits []time.Duration
		w.turns(w.candidate(w.open(), "a", trying(&waits, errTakeover)), 1001, func(ctx context.Context, term *leadership.Term) error {
			time.Sleep(5*time.Second + 1) // so that errors are forgotten
			return errTakeover
		})
		for _, d := range waits {
			requireBackoff(w, []time.Duration{d})
		}
		require.Less(w, slices.Min(waits), 51*time.Millisecond)
		require.Greater(w, slices.Max(waits), 99*time.Millisecond)
	})
}

// Any error of the store is reported and tried again.
func TestRunTriesAgainWhateverTheStoreSays(t *testing.T) {
	for _, failure := range []error{
		store.ErrUnavailable, store.ErrUnknownOutcome, context.DeadlineExceeded, errors.New("never seen before"),
	} {
		virtualRun(t, failure.Error(), func(w *world) {
			var waits []time.Duration
			var log bytes.Buffer
			opts := trying(&waits, failure)
			opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			tries := 0
			st := &fakeStore{Store: w.open()}
			st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
				if tries++; tries <= 8 {
					return nil, fmt.Errorf("cast: %w", failure)
				}
				return st.Store.Cast(ctx, election, value)
			}
			c := w.candidate(st, "a", opts)
			result := run(c, serve)
			w.at(time.Minute)
			require.True(w, c.IsLeader())
			require.Len(w, waits, 8)
			requireBackoff(w, waits)
			require.Equal(w, 8, bytes.Count(log.Bytes(), []byte("level=WARN")))
			require.Contains(w, log.String(), failure.Error())
			w.stops(c, result)
		})
	}
}

// A permanent error ends Run, which returns it.
func TestRunEndsWithWhatCannotBeCured(t *testing.T) {
	for _, failure := range []error{store.ErrClosed, store.ErrInvalid} {
		virtualRun(t, failure.Error(), func(w *world) {
			var log bytes.Buffer
			st := &fakeStore{Store: w.open()}
			st.cast = func(context.Context, string, string) (store.Ballot, error) {
				return nil, &store.Error{Op: "cast", Err: failure}
			}
			c := w.candidate(st, "a", &leadership.CandidateOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.ErrorIs(w, c.Run(background, serve), failure)
			require.Zero(w, w.now())
			require.Contains(w, log.String(), "level=ERROR")
			st.cast = nil
			result := run(c, serve)
			require.True(w, pending(result))
			require.True(w, c.IsLeader(), "the candidate is idle again")
		})
	}
}

// An error of the leader's function is an error, whatever it matches: it might come from another election.
func TestRunWaitsAfterAnErrorOfTheLeadersOwn(t *testing.T) {
	for _, own := range []error{leadership.ErrLost, leadership.ErrResigned, leadership.ErrStopped} {
		virtualRun(t, own.Error(), func(w *world) {
			var waits []time.Duration
			c := w.candidate(w.open(), "a", trying(&waits, own))
			turns := 0
			result := run(c, func(ctx context.Context, _ *leadership.Term) error {
				if turns++; turns == 1000 {
					<-ctx.Done() // virtual time does not pass while the candidate spins
				}
				return fmt.Errorf("in the other election: %w", own)
			})
			w.at(time.Minute)
			w.stops(c, result)
			require.Less(w, turns, 100, "it stood again and again without waiting")
			require.Len(w, waits, turns, "each is reported")
			requireBackoff(w, waits)
		})
	}
}

// A lost ballot or a resignation is no error, and the candidate stands again soon. If that happens again and again, for
// example because a script deletes the ballots, the candidate must not flood the store.
func TestRunSlowsDownWhereNothingLasts(t *testing.T) {
	for name, lost := range map[string]bool{"ballots": true, "leaders": false} {
		virtualRun(t, name, func(w *world) {
			var tries atomic.Int32
			st := &fakeStore{Store: w.open()}
			st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
				if tries.Add(1) == 1000 {
					<-ctx.Done() // virtual time does not pass while the candidate spins
				}
				if lost {
					return nil, store.ErrLost
				}
				return st.Store.Cast(ctx, election, value)
			}
			c := w.candidate(st, "a", nil)
			result := run(c, func(context.Context, *leadership.Term) error { return nil })
			w.at(time.Second)
			require.Less(w, tries.Load(), int32(20))
			w.at(time.Minute)
			require.Less(w, tries.Load(), int32(50))
			require.True(w, pending(result), "nor does it give up")
			w.stops(c, result)
		})
	}
}

// caches is the longest time for which a service might deny because of what it cached, plus the longest back-off.
const (
	caches  = 40 * time.Second
	noticed = caches + 5*time.Second
)

func denied() error { return &store.Error{Op: "cast", Err: store.ErrDenied} }

// unproven is a store that has never worked.
func unproven(st store.Store) *fakeStore { return &fakeStore{Store: st, worked: never} }

func never() bool  { return false }
func always() bool { return true }

// A denial is reported at once, by event and log, and tried again. It ends Run only if the store has never worked, and
// has returned only denials for as long as services cache them.
func TestDenialEndsRun(t *testing.T) {
	type cast = func(context.Context, string, string) (store.Ballot, error)
	for name, test := range map[string]struct {
		prepare func(st *fakeStore, deny cast)
		ends    bool
	}{
		"never worked":  {func(st *fakeStore, deny cast) { st.cast = deny }, true},
		"it has worked": {func(st *fakeStore, deny cast) { st.cast, st.worked = deny, always }, false},
		"a ballot was cast": {func(st *fakeStore, deny cast) {
			st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
				st.cast, st.worked = deny, always
				return st.Store.Cast(ctx, election, value)
			}
		}, false},
		"it might be out of date": {func(st *fakeStore, _ cast) {
			left := 15
			st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
				if left--; left > 0 {
					return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrDenied)
				}
				return st.Store.Cast(ctx, election, value)
			}
		}, false},
		"another error comes between": {func(st *fakeStore, deny cast) {
			tries := 0
			st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
				if tries++; tries%8 == 0 {
					return nil, store.ErrUnavailable
				}
				return deny(ctx, election, value)
			}
		}, false},
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			st := unproven(w.open())
			test.prepare(st, func(ctx context.Context, election, value string) (store.Ballot, error) {
				if w.now() < 10*time.Minute {
					return nil, denied()
				}
				return st.Store.Cast(ctx, election, value)
			})
			c := w.candidate(st, "a", log.heard(store.ErrDenied))
			var led atomic.Bool
			result := run(c, func(context.Context, *leadership.Term) error { led.Store(true); return nil })
			w.at(time.Second)
			require.Contains(w, log.String(), "event: ", "at once")
			require.Contains(w, log.String(), "level=WARN")
			require.Equal(w, name == "a ballot was cast", led.Load())
			w.at(caches - 1)
			require.True(w, pending(result))
			w.at(noticed)
			require.Equal(w, test.ends, !pending(result))
			if test.ends {
				require.ErrorIs(w, <-result, store.ErrDenied)
				require.Contains(w, log.String(), "level=ERROR")
				return
			}
			w.at(10 * time.Minute)
			require.True(w, pending(result))
			w.at(10*time.Minute + noticed)
			require.True(w, led.Load(), "the denial has passed")
			c.Stop()
			require.NoError(w, <-result)
		})
	}
}

// Campaign returns a denial at once.
func TestDenialEndsCampaign(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		fake := &fakeStore{Store: st, cast: func(context.Context, string, string) (store.Ballot, error) { return nil, denied() }}
		_, err := w.candidate(fake, "a", nil).Campaign(background)
		require.ErrorIs(w, err, store.ErrDenied)
		require.Zero(w, w.now())
	})
}

// If a denial costs the ballot, the candidate reports the denial.
func TestDenialOfAStandingBallotIsReported(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.wait = func(context.Context) error { return fmt.Errorf("%w: %w", store.ErrLost, store.ErrDenied) }
		}), "a", log.heard(store.ErrDenied))
		result := run(c, serve)
		w.at(time.Second)
		require.Contains(w, log.String(), "event: ")
		w.at(10 * noticed)
		require.True(w, pending(result), "the store has worked")
		c.Stop()
		require.NoError(w, <-result)
	})
}

// The same rule for followers.
func TestDenialEndsAFollower(t *testing.T) {
	for name, test := range map[string]struct {
		answers int // before it is denied
		worked  bool
		ends    bool
	}{
		"never worked":     {0, false, true},
		"it has worked":    {0, true, false},
		"it had an answer": {1, false, false},
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			st := unproven(w.open())
			asked := 0
			st.worked = func() bool { return test.worked || asked > 0 && test.answers > 0 }
			st.observe = func(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
				if asked++; asked <= test.answers {
					return store.Known{AsOf: time.Now()}, nil
				}
				if w.now() < 10*time.Minute {
					return store.Known{}, denied()
				}
				return st.Store.Observe(ctx, election, prev)
			}
			f := w.follower(st, log.heard(store.ErrDenied))
			f.Start()
			w.at(caches - 1)
			require.Contains(w, log.String(), "event: ")
			require.NoError(w, f.Err())
			w.at(noticed)
			if test.ends {
				require.ErrorIs(w, f.Err(), store.ErrDenied)
				require.True(w, isDone(f), "it has ended by itself")
				return
			}
			w.at(10 * time.Minute)
			require.NoError(w, f.Err())
			w.at(10*time.Minute + noticed)
			w.lead(w.open(), "a")
			leader, err := f.Wait(background)
			require.NoError(w, err)
			require.Equal(w, "a", leader.Value)
		})
	}
}

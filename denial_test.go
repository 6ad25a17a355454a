package leadership_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

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

// A denial is reported at once, by hook and log, and tried again. It ends Run only if the store has never worked, and
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
			result := async(func() error {
				return c.Run(background, func(context.Context, *leadership.Term) error { led.Store(true); return nil })
			})
			w.at(time.Second)
			require.Contains(w, log.String(), "hook: ", "the hook is told at once")
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

// A denial that passes before the caches expire delays the candidate, and nothing more.
func TestDenialPasses(t *testing.T) {
	virtual(t, func(w *world) {
		st := unproven(w.open())
		st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
			if w.now() < caches-time.Second {
				return nil, denied()
			}
			return st.Store.Cast(ctx, election, value)
		}
		elected, errs := w.candidate(st, "a", nil).RunForElection()
		require.False(w, <-elected)
		require.ErrorIs(w, <-errs, store.ErrDenied, "the channel tells of it too")
		require.True(w, <-elected)
		require.LessOrEqual(w, w.now(), noticed)
	})
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
		result := async(func() error { return c.Run(background, serve) })
		w.at(time.Second)
		require.Contains(w, log.String(), "hook: ")
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
			require.Contains(w, log.String(), "hook: ")
			require.NoError(w, f.Err())
			w.at(noticed)
			if test.ends {
				require.ErrorIs(w, f.Err(), store.ErrDenied)
				require.True(w, isDone(f), "it has ended by itself")
				_, errs := f.FollowElection()
				require.ErrorIs(w, <-errs, store.ErrDenied)
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

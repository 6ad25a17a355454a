package leadership_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Case 48: every end, in every state, twice, and after the other ends.
func TestEndsInEveryState(t *testing.T) {
	states := map[string]func(w *world, c *leadership.Candidate){
		"idle":           func(*world, *leadership.Candidate) {},
		"campaigning":    func(_ *world, c *leadership.Candidate) { go func() { _, _ = c.Campaign(background) }() },
		"running":        func(_ *world, c *leadership.Candidate) { go func() { _ = c.Run(background, serve) }() },
		"on the channel": func(_ *world, c *leadership.Candidate) { c.RunForElection() },
	}
	ends := map[string]func(w *world, c *leadership.Candidate, st store.Store){
		"Stop": func(_ *world, c *leadership.Candidate, _ store.Store) { c.Stop() },
		"Resign": func(w *world, c *leadership.Candidate, _ store.Store) {
			if err := c.Resign(background); !errors.Is(err, leadership.ErrClosed) { // which only "Close" can cause
				require.NoError(w, err)
			}
		},
		"Close": func(w *world, _ *leadership.Candidate, st store.Store) { require.NoError(w, st.Close()) },
	}
	for state, enter := range states {
		for _, waits := range []bool{false, true} {
			for first, end := range ends {
				for second, endAgain := range ends {
					name := state + ": " + first + ", " + second
					if waits {
						name += " while another leads"
					}
					t.Run(name, func(t *testing.T) {
						virtual(t, func(w *world) {
							if waits {
								w.lead(w.open(), "other")
							}
							st := w.open()
							c := w.candidate(st, "a", nil)
							enter(w, c)
							synctest.Wait()
							end(w, c, st)
							end(w, c, st)
							endAgain(w, c, st)
							c.Stop()
							ends["Resign"](w, c, st) // after Stop
							c.Stop()
							require.Less(w, w.now(), 10*time.Millisecond)
							require.False(w, c.IsLeader())
							require.NotContains(w, w.ballots(), "a")
							require.NotEqual(w, "a", w.leader())
							_, err := c.Campaign(background)
							require.ErrorIs(w, err, leadership.ErrStopped)
							require.ErrorIs(w, c.Run(background, nil), leadership.ErrStopped)
						})
					})
				}
			}
		}
	}
}

// A normal Stop is not an error: neither the hook nor the channel hears of one, whatever the goroutines' order.
func TestStopIsNotAnError(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for range 2000 {
			c, err := leadership.NewCandidate(st, election, "a", &leadership.Options{Hooks: &leadership.Hooks{
				Error: func(_ string, err error, _ time.Duration) { t.Errorf("the hook was told %q", err) },
			}})
			require.NoError(w, err)
			_, errs := c.RunForElection()
			synctest.Wait()
			require.True(w, c.IsLeader())
			c.Stop()
			require.NoError(w, <-errs)
			if t.Failed() {
				return
			}
		}
	})
}

// Stop waits for the store no longer than the rest of the lease, whatever else is waiting for it: here the holder of
// the term, who gave Resign all the time in the world.
func TestStopWhileResignWaitsForTheStore(t *testing.T) {
	virtual(t, func(w *world) {
		var looks atomic.Int32
		st := w.open()
		c := w.candidate(&countingLeases{fakeStore{Store: st}, func() {
			if looks.Add(1) == 1000 { // time stands still while Stop spins
				st.Faults().Heal()
			}
		}}, "a", nil)
		term := w.campaign(c)
		st.Faults().Cut()
		resigning := async(func() error { return term.Resign(background) })
		require.True(w, pending(resigning))
		w.at(time.Second)
		c.Stop()
		require.Less(w, looks.Load(), int32(1000), "Stop is spinning")
		require.Equal(w, valid, w.now())
		st.Faults().Heal()
		require.NoError(w, <-resigning)
	})
}

// countingLeases tells when a ballot is asked for its lease.
type countingLeases struct {
	fakeStore
	look func()
}

type countingBallot struct {
	store.Ballot
	look func()
}

func (s *countingLeases) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	b, err := s.Store.Campaign(ctx, election, value)
	return countingBallot{b, s.look}, err
}

func (b countingBallot) Lease() *store.Lease { b.look(); return b.Ballot.Lease() }

// The line is cut: Stop waits for the store as long as the lease lasts, and no longer, in each form.
func TestStopOnACutLine(t *testing.T) {
	for form, drive := range forms {
		t.Run(form, func(t *testing.T) {
			virtual(t, func(w *world) {
				st := w.open()
				c := w.candidate(st, "a", nil)
				result := async(func() error { return drive(c, &visitor{}) })
				w.at(time.Second)
				require.True(w, c.IsLeader())
				st.Faults().Cut()
				c.Stop()
				require.False(w, c.IsLeader())
				if form == "Campaign" {
					require.LessOrEqual(w, w.now(), valid, "its driver has given up earlier")
				} else {
					require.Equal(w, valid, w.now())
				}
				require.NoError(w, <-result)
				w.at(ttl - 1)
				require.Equal(w, []string{"a"}, w.ballots())
				st.Faults().Heal()
				synctest.Wait()
				require.Empty(w, w.ballots(), "the store went on by itself")
			})
		})
	}
}

// Case 48 for followers.
func TestFollowerEnds(t *testing.T) {
	for name, begin := range map[string]func(f *leadership.Follower){
		"never started": func(*leadership.Follower) {},
		"started":       func(f *leadership.Follower) { f.Start() },
		"on channels":   func(f *leadership.Follower) { f.FollowElection() },
		"with callbacks": func(f *leadership.Follower) {
			f.OnNewLeader(func(leadership.Leader) {})
			f.Start()
		},
	} {
		for _, cut := range []bool{false, true} {
			virtual(t, func(w *world) {
				st := w.open()
				if cut {
					st.Faults().Cut()
				}
				f := w.follower(st, nil)
				begin(f)
				synctest.Wait()
				f.Stop()
				f.Stop()
				f.Start()
				require.NoError(w, st.Close())
				f.Stop()
				require.Zero(w, w.now(), name)
				_, led := f.Leader()
				require.False(w, led)
				_, err := f.Wait(background)
				require.ErrorIs(w, err, leadership.ErrStopped)
			})
		}
	}
}

// Case 48: Close with everything running. The candidates and followers end by themselves, all with the same error.
func TestCloseUnderEverything(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		var results []<-chan error
		for range 5 {
			for _, drive := range forms {
				c := w.candidate(st, "a", nil)
				results = append(results, async(func() error { return drive(c, &visitor{}) }))
			}
			f := w.follower(st, nil)
			results = append(results, async(func() error {
				for range f.Changes(background) {
				}
				_, err := f.Wait(background)
				if err == nil { // there was a leader
					err = leadership.ErrClosed
				}
				return err
			}))
		}
		w.at(ttl)
		require.Len(w, w.ballots(), 15)
		require.NoError(w, st.Close())
		for _, result := range results {
			require.ErrorIs(w, <-result, leadership.ErrClosed)
		}
		require.Empty(w, w.ballots())
		require.Empty(w, w.leader())
	})
}

// Case 54: a thousand starts and stops leave nothing behind.
func TestAThousandStartsAndStops(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		st := w.open()
		before := strings.Count(stacks(), "\ngoroutine ")
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				c, err := leadership.NewCandidate(st, election, "a", nil)
				if err != nil {
					t.Error(err)
					return
				}
				f, err := leadership.NewFollower(st, election, nil)
				if err != nil {
					t.Error(err)
					return
				}
				c.OnLost(func(context.Context, store.Leader) {})
				switch i % 3 {
				case 0:
					c.RunForElection()
				case 1:
					ended := async(func() error { return c.Run(background, nil) })
					defer func() { <-ended }()
				case 2:
					ctx, cancel := context.WithCancel(background)
					ended := async(func() error { _, err := c.Campaign(ctx); return err })
					defer func() { <-ended }()
					defer cancel()
				}
				values, _ := f.FollowElection()
				<-values
				c.Stop()
				f.Stop()
			})
		}
		all.Wait()
		synctest.Wait()
		require.Equal(w, []string{"other"}, w.ballots())
		after := stacks()
		require.LessOrEqual(w, strings.Count(after, "\ngoroutine "), before, after)
	})
}

// stacks returns those of all goroutines. runtime.NumGoroutine counts some that are as good as dead.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

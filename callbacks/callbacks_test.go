package callbacks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/callbacks"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

const (
	election = "database/primary"
	ttl      = 12 * time.Second
)

var (
	background  = context.Background()
	errTakeover = errors.New("the disk is full")
)

// world is a service of its own in virtual time, and a diary of the callbacks.
type world struct {
	*testing.T
	service *memory.Service

	mu    sync.Mutex
	diary []string // guarded by mu
}

// virtual runs a test in virtual time: a sleep takes no time, and lets everything happen that is due until then.
func virtual(t *testing.T, name string, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(&world{T: t, service: memory.NewService()}) })
	})
}

func (w *world) open() *memory.Store {
	w.Helper()
	st, err := memory.Open(w.service, &memory.Config{TTL: ttl})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, st.Close()) })
	synctest.Wait()
	return st
}

func (w *world) candidate(st store.Store, value string) *leadership.Candidate {
	w.Helper()
	c, err := leadership.NewCandidate(st, election, value, nil)
	require.NoError(w, err)
	w.Cleanup(func() { c.Stop(); <-c.Done() })
	return c
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, fmt.Sprintf(format, args...))
}

func (w *world) noted() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.diary)
}

// queue returns the values of the ballots that stand, and the leader's.
func (w *world) queue(st store.Store) (ballots []string, leader string) {
	w.Helper()
	list, err := st.Ballots(background, election)
	require.NoError(w, err)
	for _, b := range list {
		ballots = append(ballots, b.Value)
	}
	known, err := st.Observe(background, election, nil)
	require.NoError(w, err)
	return ballots, known.Leader.Value
}

// A takeover is acknowledged when Won has returned. When the term is over, Ended is called while the ballot stands.
func TestRun(t *testing.T) {
	virtual(t, "", func(w *world) {
		st := w.open()
		c := w.candidate(st, "a")
		ctx, cancel := context.WithCancelCause(background)
		result := make(chan error, 1)
		go func() {
			result <- callbacks.Run(ctx, c, callbacks.Candidate{
				Won: func(ctx context.Context, term *leadership.Term) error {
					require.Equal(w, term.Context(), ctx)
					time.Sleep(10 * ttl)
					_, leader := w.queue(st)
					w.note("won, leader %q", leader)
					return nil
				},
				TakeoverFailed: func(error) { w.note("failed") },
				Ended: func(term *leadership.Term, cause error) {
					require.Equal(w, context.Cause(term.Context()), cause)
					require.False(w, c.IsLeader())
					time.Sleep(10 * ttl)
					ballots, _ := w.queue(st)
					w.note("ended: %v, ballots %q", cause, ballots)
				},
			})
		}()
		time.Sleep(11 * ttl)
		_, leader := w.queue(st)
		require.Equal(w, "a", leader)
		c.Resign()
		time.Sleep(22 * ttl)
		require.True(w, c.IsLeader(), "it stands again")
		cancel(errTakeover)
		require.ErrorIs(w, <-result, errTakeover)
		require.Equal(w, []string{
			`won, leader ""`, `ended: resigned, ballots ["a"]`, `won, leader ""`, `ended: stopped: the disk is full, ballots ["a"]`,
		}, w.noted())
	})
}

// A takeover that fails is never acknowledged, is undone while the ballot stands, and sends the candidate to the back.
func TestTakeoverFails(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(c *leadership.Candidate, term *leadership.Term) error
		want error
	}{
		"error":   {func(*leadership.Candidate, *leadership.Term) error { return errTakeover }, errTakeover},
		"unknown": {func(*leadership.Candidate, *leadership.Term) error { return store.ErrUnknownOutcome }, store.ErrUnknownOutcome}, // of its own work
		"panic":   {func(*leadership.Candidate, *leadership.Term) error { panic("boom") }, leadership.ErrFailed},
		"exit":    {func(*leadership.Candidate, *leadership.Term) error { runtime.Goexit(); return nil }, leadership.ErrFailed},
		"resigns": {func(c *leadership.Candidate, _ *leadership.Term) error { c.Resign(); return nil }, leadership.ErrResigned},
		"stops":   {func(c *leadership.Candidate, _ *leadership.Term) error { c.Stop(); return nil }, leadership.ErrStopped},
		"ends":    {func(_ *leadership.Candidate, term *leadership.Term) error { term.End(errTakeover); return nil }, errTakeover},
	} {
		virtual(t, name, func(w *world) {
			st := w.open()
			a, b := w.candidate(st, "a"), w.candidate(st, "b")
			var causes []error
			go callbacks.Run(background, a, callbacks.Candidate{
				Won: func(_ context.Context, term *leadership.Term) error {
					time.Sleep(time.Second)
					return test.fail(a, term)
				},
				TakeoverFailed: func(cause error) {
					ballots, leader := w.queue(st)
					w.note("failed, ballots %q, leader %q", ballots, leader)
					causes = append(causes, cause)
				},
				Ended: func(_ *leadership.Term, cause error) { causes = append(causes, cause) },
			})
			synctest.Wait()
			go b.Run(background, leadership.Lead)
			time.Sleep(ttl)
			require.Equal(w, []string{`failed, ballots ["a" "b"], leader ""`}, w.noted())
			require.Len(w, causes, 2)
			require.ErrorIs(w, causes[0], test.want)
			require.Equal(w, causes[0], causes[1])
			ballots, leader := w.queue(st)
			require.Equal(w, "b", leader)
			if name != "stops" {
				require.Equal(w, []string{"b", "a"}, ballots)
			}
		})
	}
}

// If followers might have heard of the term, since no answer to the acknowledgement came, the takeover is not undone.
func TestAcknowledgementWithoutAnAnswer(t *testing.T) {
	virtual(t, "", func(w *world) {
		st := w.open()
		c := w.candidate(st, "a")
		go callbacks.Run(background, c, callbacks.Candidate{
			Won:            func(context.Context, *leadership.Term) error { st.Faults().LoseReplies(); return nil },
			TakeoverFailed: func(error) { w.note("failed") },
			Ended:          func(*leadership.Term, error) { w.note("ended"); st.Faults().Heal(); c.Stop() },
		})
		<-c.Done()
		require.Equal(w, []string{"ended"}, w.noted())
	})
}

// A callback that exits is reported, and the candidate stands again. Callbacks that are not set are left out.
func TestCallbacksThatExit(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		virtual(t, name, func(w *world) {
			c := w.candidate(w.open(), "a")
			go callbacks.Run(background, c, callbacks.Candidate{Ended: func(*leadership.Term, error) { w.note("ended"); leave() }})
			for range 2 {
				time.Sleep(ttl)
				require.True(w, c.IsLeader())
				c.Resign()
			}
			require.Equal(w, []string{"ended", "ended"}, w.noted())
			f, err := leadership.NewFollower(w.open(), election, nil)
			require.NoError(w, err)
			defer f.Stop()
			time.Sleep(ttl)
			require.ErrorContains(w, callbacks.Follow(background, f, callbacks.Follower{
				NewLeader: func(context.Context, leadership.Leader) { leave() },
			}), "callback NewLeader: ")
		})
	}
	virtual(t, "none", func(w *world) {
		c := w.candidate(w.open(), "a")
		go callbacks.Run(background, c, callbacks.Candidate{})
		time.Sleep(time.Second)
		require.True(w, c.IsLeader())
		f, err := leadership.NewFollower(w.open(), election, nil)
		require.NoError(w, err)
		ended := make(chan error, 1)
		go func() { ended <- callbacks.Follow(background, f, callbacks.Follower{}) }()
		synctest.Wait()
		f.Stop()
		require.ErrorIs(w, <-ended, leadership.ErrStopped)
	})
}

// scripted is a store that answers what it is told to.
type scripted struct {
	store.Store
	answers chan store.Leader
}

func (s *scripted) Observe(ctx context.Context, _ string, _ *store.Known) (store.Known, error) {
	select {
	case leader := <-s.answers:
		return store.Known{Leader: leader, AsOf: time.Now()}, nil
	case <-ctx.Done():
		return store.Known{}, context.Cause(ctx)
	}
}

// The context of a callback ends with the follower, with what has ended it.
func TestFollowersContext(t *testing.T) {
	virtual(t, "", func(w *world) {
		f, err := leadership.NewFollower(w.open(), election, nil)
		require.NoError(w, err)
		result := make(chan error, 1)
		go func() {
			result <- callbacks.Follow(background, f, callbacks.Follower{LeaderGone: func(ctx context.Context) {
				<-ctx.Done()
				w.note("%v", context.Cause(ctx))
			}})
		}()
		synctest.Wait()
		f.Stop()
		require.ErrorIs(w, <-result, leadership.ErrStopped)
		require.Equal(w, []string{"stopped"}, w.noted())
	})
}

// Each leader and each end is told, in order; between two leaders LeaderGone is called once, even if the second took over at
// once. What came and went while a callback was running is left out.
func TestFollow(t *testing.T) {
	virtual(t, "", func(w *world) {
		st := &scripted{w.open(), make(chan store.Leader)}
		f, err := leadership.NewFollower(st, election, nil)
		require.NoError(w, err)
		defer func() { f.Stop(); <-f.Done() }()
		ctx, cancel := context.WithCancelCause(background)
		slow := make(chan struct{})
		result := make(chan error, 1)
		go func() {
			result <- callbacks.Follow(ctx, f, callbacks.Follower{
				NewLeader: func(_ context.Context, leader leadership.Leader) {
					w.note("%s leads", leader.Value)
					if leader.Value == "slow" {
						<-slow
					}
				},
				LeaderGone: func(context.Context) { w.note("gone") },
			})
		}()
		for i, value := range []string{"", "a", "b", "", "b", "", "slow", "c", "", "d"} {
			leader := store.Leader{}
			if value != "" {
				leader = store.Leader{Value: value, Revision: uint64(i)}
			}
			st.answers <- leader
			synctest.Wait()
		}
		close(slow)
		require.Equal(w, []string{
			"gone", "a leads", "gone", "b leads", "gone", "b leads", "gone", "slow leads", "gone", "d leads",
		}, w.noted())
		cancel(errTakeover)
		require.ErrorIs(w, <-result, errTakeover)
	})
}

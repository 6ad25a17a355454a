package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestCloseInOrder: the ballots are lost, the lease ends, the session is ended, the driver is closed.
func TestCloseInOrder(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.cast(2, Place{Nearest: "own1"})
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		end := s.find("End")
		require.True(t, b.isLost())
		require.ErrorIs(t, b.Err(), store.ErrLost)
		require.ErrorIs(t, b.Err(), store.ErrClosed)
		require.False(t, s.holds(b))
		require.Len(t, end.led, 1, "of those that led")
		require.Equal(t, "own1", end.led[0].Key)
		require.NoError(t, end.ctx.Err())
		require.False(t, s.isClosed())
		require.False(t, closing.returned())
		end.answer(answer{})
		require.True(t, closing.returned())
		require.True(t, s.isClosed())
		_, err := s.Engine.Cast(t.Context(), "x", "")
		require.ErrorIs(t, err, store.ErrClosed)
		require.ErrorIs(t, b.Withdraw(t.Context()), store.ErrClosed)
		asked := s.asked
		_, err = s.openSession(t.Context()) // by a Cast that does not know yet
		require.ErrorIs(t, err, store.ErrClosed)
		require.Equal(t, asked, s.asked, "the driver is closed")
	})
}

// TestCloseTellsTheBallotsBeforeTheCallsEnd: no Cast wins in between.
func TestCloseTellsTheBallotsBeforeTheCallsEnd(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		late := s.casting(t.Context(), "x")
		enter := s.next("Enter")
		hold := make(chan struct{})
		b.onLoss(func() { <-hold })
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.NoError(t, s.life.Calls.Err())
		enter.answer(entered(2, Place{}))
		_, err := s.Engine.Cast(t.Context(), "y", "")
		require.ErrorIs(t, err, store.ErrClosed)
		time.Sleep(time.Second)
		require.Zero(t, s.count("Open"), "no session is opened any more")
		_, _, err = s.call(t.Context())
		require.ErrorIs(t, err, store.ErrClosed)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = s.call(ended)
		close(hold)
		require.ErrorIs(t, err, store.ErrClosed, "whatever the caller's context says")
		late.fails(t, store.ErrClosed)
		s.find("End").answer(answer{})
		require.True(t, closing.returned())
	})
}

// TestCloseWaitsForCallsInTheDriver, and for the engine's own requests, before it closes the driver.
func TestCloseWaitsForCallsInTheDriver(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, done, err := s.call(t.Context())
		require.NoError(t, err)
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.False(t, closing.returned() || s.isClosed())
		done()
		require.True(t, closing.returned())
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		s.deaf.Store(true)
		time.Sleep(pace)
		confirm := s.next("Confirm")
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.False(t, closing.returned() || s.isClosed())
		confirm.answer(answer{})
		require.True(t, closing.returned())
	})
}

// TestCloseWhileTheSessionOpens: it is ended, and nothing is cast in it.
func TestCloseWhileTheSessionOpens(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.casting(t.Context(), "x")
		o := s.opening
		s.next("Open")
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		c.fails(t, store.ErrClosed)
		require.ErrorIs(t, o.err, store.ErrClosed)
		require.True(t, closing.returned())
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.casting(t.Context(), "x")
		open := s.next("Open")
		s.Engine.mu.Lock()
		s.closing = true // Close has begun
		s.Engine.mu.Unlock()
		open.answer(answer{})
		require.Zero(t, s.count("Enter"))
		s.next("End").answer(answer{})
		s.quiet()
		s.Engine.mu.Lock()
		s.closing = false // so that the store is closed
		s.Engine.mu.Unlock()
	})
}

// TestCloseGivesUpOnAServiceThatDoesNotAnswer.
func TestCloseGivesUpOnAServiceThatDoesNotAnswer(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.leading(1)
		began := time.Now()
		require.NoError(t, s.Engine.Close())
		require.Equal(t, endLimit, time.Since(began))
	})
}

// TestWorked is true from the first ballot that was cast, or read that was answered. Sessions prove nothing: services
// also open and confirm them for users without permission for elections.
func TestWorked(t *testing.T) {
	for op, ask := range map[string]func(s *scene){
		"Leader":  func(s *scene) { s.observe(nil) },
		"Ballots": func(s *scene) { go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }() },
		"Enter":   func(s *scene) { s.casting(context.Background(), "x") },
	} {
		t.Run(op, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				s.casting(context.Background(), "y")
				s.next("Open").answer(answer{})
				s.find("Enter").fail(store.ErrDenied)
				time.Sleep(ttl) // confirmed
				for _, failure := range []error{store.ErrDenied, errLater} {
					ask(s)
					s.find(op).fail(failure)
					require.False(t, s.Worked())
				}
				ask(s)
				time.Sleep(pace)
				r := s.find(op)
				if r.tell != nil {
					r.tell(News{State: &State{}})
				}
				r.answer(answer{})
				require.True(t, s.Worked())
				ask(s)
				s.find(op).fail(store.ErrDenied)
				require.True(t, s.Worked())
			})
		})
	}
}

// free checks that locks are free, while nothing else of the store runs.
func free(t *testing.T, locks ...*sync.Mutex) {
	t.Helper()
	for _, mu := range locks {
		if mu.TryLock() {
			mu.Unlock()
		} else {
			t.Error("a lock is held")
		}
	}
}

// TestNoLockWhileAWatchIsTakenBack: a driver might call tell under a lock that Stop waits for.
func TestNoLockWhileAWatchIsTakenBack(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, leader *request) {
		b, own, prev := s.waitingBehind(Place{Nearest: "other", More: true})
		o := s.observation()
		stopped := 0
		s.stopping = func() { stopped++; free(t, &s.Engine.mu, &b.mu, &o.mu) }
		leader.tells(News{Over: true})
		s.next("Leader").shows(State{Leader: two})
		require.Equal(t, 1, stopped, "replaced")
		own.tells(News{Over: true})
		own = s.next("Entry").shows(State{Token: 7})
		require.Equal(t, 2, stopped, "replaced")
		prev.goes()
		s.next("Ahead").answer(answer{place: Place{Nearest: "leader"}})
		require.Equal(t, 3, stopped, "of no use")
		s.next("Entry").shows(other)
		own.goes()
		require.Equal(t, 5, stopped, "both, since the ballot is lost")
		s.stopping = nil
	})
}

// ownContext is a context of the program's own type, which might wait for another caller.
type ownContext struct {
	context.Context
	asked func()
}

func (c ownContext) Err() error { c.asked(); return c.Context.Err() }

// TestNoLockWhileAContextIsAsked.
func TestNoLockWhileAContextIsAsked(t *testing.T) {
	for op, ask := range map[string]func(s *scene, ctx context.Context) error{
		"Leader":  func(s *scene, ctx context.Context) error { _, err := s.Observe(ctx, "x", nil); return err },
		"Ballots": func(s *scene, ctx context.Context) error { _, err := s.Engine.Ballots(ctx, "x"); return err },
	} {
		t.Run(op, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				asked := 0
				ctx := ownContext{context.Background(), func() { asked++; free(t, &s.Engine.mu) }}
				c := start(func() (struct{}, error) { return struct{}{}, ask(s, ctx) })
				require.NotZero(t, asked)
				r := s.next(op)
				if r.tell != nil {
					r.tell(News{State: &State{}})
				}
				r.answer(answer{})
				c.succeeds(t)
			})
		})
	}
}

// conditioned is a session whose service has transactions.
type conditioned struct{ Session }

func (conditioned) Condition(e Entry) any { return e.Token }

// TestCondition is that of the ballot's entry, from when the ballot is known to be first, also when it is lost: then the
// service refuses.
func TestCondition(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		condition, err := b.Condition()
		require.NoError(t, err)
		require.Nil(t, condition, "the driver has none")
		waiting := s.cast(2, Place{Nearest: b.entry.Key})
		b.session.driver = conditioned{b.session.driver}
		_, err = waiting.Condition()
		require.ErrorIs(t, err, store.ErrNotFirst)
		b.lose(store.ErrLost)
		condition, err = b.Condition()
		require.NoError(t, err)
		require.EqualValues(t, 1, condition)
	})
}

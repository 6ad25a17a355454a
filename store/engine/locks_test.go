package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	play(t, Settings{}, func(t *testing.T, s *scene) {
		leader := s.watched()
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
				require.True(t, c.returned())
				require.NoError(t, c.err)
			})
		})
	}
}

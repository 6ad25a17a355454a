package engine

import (
	"context"
	"runtime"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestCloseEndsObserve at once with ErrClosed, also if a watch reports what Close does.
func TestCloseEndsObserve(t *testing.T) {
	for name, news := range map[string][]News{"nothing is told": nil, "another leader is told": {{State: &State{Leader: two}}}} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				watch := s.watched()
				a, b := s.leader(&one), s.leader(&one)
				s.leading(1)
				closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
				for _, n := range news {
					watch.tells(n)
				}
				require.True(t, a.returned() && b.returned())
				s.find("End").answer(answer{})
				require.True(t, closing.returned())
				require.ErrorIs(t, a.err, store.ErrClosed)
				require.ErrorIs(t, b.err, store.ErrClosed)
			})
		})
	}
}

// TestCloseWhileTheAnswerIsKnown ends the call with ErrClosed: the known state might be what Close has done.
func TestCloseWhileTheAnswerIsKnown(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.watched()
		p := s.observation()
		callers := func() int {
			s.Engine.mu.Lock()
			defer s.Engine.mu.Unlock()
			return p.callers
		}
		result := make(chan error, 1)
		p.mu.Lock()
		go func() { _, err := s.Observe(context.Background(), "x", &store.Known{}); result <- err }()
		for callers() == 0 {
			runtime.Gosched()
		}
		s.life.Close()
		p.mu.Unlock()
		require.ErrorIs(t, <-result, store.ErrClosed)
	})
}

package engine

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestWorked is true from the first ballot that was cast, or read that was answered. Sessions prove nothing: services
// also open and confirm them for users without permission for elections.
func TestWorked(t *testing.T) {
	for op, ask := range map[string]func(s *scene){
		"Leader":  func(s *scene) { s.leader(nil) },
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

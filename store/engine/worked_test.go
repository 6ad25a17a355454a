package engine

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestWorked is true from the first answer on that is no refusal, whatever was asked.
func TestWorked(t *testing.T) {
	for op, ask := range map[string]func(s *scene){
		"Leader":  func(s *scene) { s.leader(nil) },
		"Ballots": func(s *scene) { go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }() },
		"Open":    func(s *scene) { s.campaign(context.Background(), "x") },
		"Confirm": func(*scene) { time.Sleep(pace) },
	} {
		t.Run(op, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				require.True(t, s.Worked(), "the first Confirm was answered")
				s.worked.Store(false)
				s.confirms.Store(true)
				for _, failure := range []error{store.ErrDenied, errLater} {
					ask(s)
					s.find(op).fail(failure)
					require.False(t, s.Worked())
				}
				ask(s)
				time.Sleep(pace)
				s.find(op).answer(answer{})
				require.True(t, s.Worked())
				time.Sleep(pace)
				s.find("Confirm").fail(store.ErrDenied)
				require.True(t, s.Worked())
			})
		})
	}
}

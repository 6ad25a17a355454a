package engine

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestWithdrawAfterTheSessionWasGivenUp because there were no answers does not wait for one: nothing is sent any more.
func TestWithdrawAfterTheSessionWasGivenUp(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		s.session.ends(errLater)
		c := s.withdraw(t.Context(), b)
		require.True(t, c.returned(), "at once")
		require.ErrorIs(t, c.err, errLater, "it might stand")
	})
}

// TestWithdrawAfterTheEndOfASession that was given up succeeds if the service has confirmed the end: the entry is gone.
func TestWithdrawAfterTheEndOfASession(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		var log strings.Builder
		play(t, Settings{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, s *scene) {
			b := s.cast(1, Place{})
			s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
			s.session.ends(errDisk)
			end := s.next("End")
			if !confirmed {
				end.fail(store.ErrUnavailable)
				require.ErrorIs(t, b.Withdraw(t.Context()), errDisk, "it might stand")
				require.Contains(t, log.String(), "the end of the session is not confirmed")
				return
			}
			end.answer(answer{})
			require.NoError(t, b.Withdraw(t.Context()))
			require.Empty(t, log.String())
			require.ErrorIs(t, b.Err(), errDisk, "the first reason stays")
			s.quiet()
		})
	}
}

// TestWithdrawAfterARefusal succeeds once the session has ended, which took the entry along.
func TestWithdrawAfterARefusal(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		c := s.withdraw(t.Context(), b)
		s.next("Remove").fail(store.ErrDenied)
		require.True(t, c.returned())
		require.ErrorIs(t, c.err, store.ErrDenied)
		s.next("End").answer(answer{})
		require.NoError(t, b.Withdraw(t.Context()))
	})
}

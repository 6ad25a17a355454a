package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWithdrawAfterTheSessionWasGivenUp for want of answers does not wait for one: nothing is sent any more.
func TestWithdrawAfterTheSessionWasGivenUp(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		s.session.ends(errLater)
		c := s.withdraw(t.Context(), b)
		require.True(t, c.returned(), "at once")
		require.ErrorIs(t, c.err, errLater, "it might stand")
	})
}

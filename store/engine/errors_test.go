package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestDenialThatPasses costs no ballot, and that of a removal no session: it has to last as long as the settings say.
func TestDenialThatPasses(t *testing.T) {
	play(t, Settings{DenialTimeout: time.Second}, func(t *testing.T, s *scene) {
		b, own := s.leading(1)
		deny := func() {
			time.Sleep(400 * time.Millisecond)
			s.next("Entry").fail(store.ErrDenied)
		}
		own.tells(News{})
		for range 2 {
			deny()
			deny()
			time.Sleep(100 * time.Millisecond)
			again := s.next("Entry")
			again.shows(State{Token: 1, Session: b.session.id})
			require.False(t, b.isLost(), "it passed")
			again.tells(News{}) // and counts from its beginning again
		}
		deny()
		deny()
		deny()
		require.False(t, b.isLost(), "0.8 s since the first one")
		deny()
		require.ErrorIs(t, b.Err(), store.ErrDenied)
	})
	play(t, Settings{DenialTimeout: time.Second}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		other, _, _ := s.waitingBehind(behind)
		c := s.withdraw(t.Context(), b)
		s.next("Remove").fail(store.ErrDenied)
		time.Sleep(900 * time.Millisecond)
		s.next("Remove").fail(store.ErrDenied)
		require.False(t, other.isLost())
		require.False(t, c.returned())
		time.Sleep(400 * time.Millisecond)
		s.next("Remove").fail(store.ErrDenied)
		require.True(t, other.isLost())
		c.fails(t, store.ErrDenied)
	})
}

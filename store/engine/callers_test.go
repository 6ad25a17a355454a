package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestSessionGivenUpOnACallersConnection: the session goes on at the service, so each of its entries is removed, that
// of a leader once its work has stopped. The next session that is opened is the same one, and knows these entries.
func TestSessionGivenUpOnACallersConnection(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.scripted.owned = false
		b, _ := s.leading(1)
		other, _, _ := s.waitingBehind(behind)
		s.scripted.session.ends(errDisk)
		require.True(t, b.isLost())
		require.True(t, other.isLost())
		require.ErrorIs(t, other.Err(), errDisk)
		require.Equal(t, "own7", s.next("Remove").key)
		require.Equal(t, 1, s.count("Remove"), "the leader's work goes on")

		s.scripted.sessions = 0 // the next has the same ID
		next := s.cast(8, Place{Nearest: "own1", Nonces: []string{b.nonce.Name, other.nonce.Name}})
		require.Zero(t, s.count("Void"), "they are no strays")
		s.find("Entry").shows(State{Token: 1, Session: b.session.id, Nonce: b.nonce.Name}).goes()
		for range 2 { // the first was sent before the other was gone
			s.find("Entry").shows(State{Token: 8, Session: b.session.id})
		}
		require.True(t, next.isFirst())
		require.NoError(t, next.Wait(t.Context()))
		s.acknowledge(next)
		s.find("Acknowledge").answer(answer{revision: 9})
		s.find("Remove").answer(answer{})

		withdrawal := s.withdraw(t.Context(), b)
		removal := s.next("Remove")
		require.Equal(t, "own1", removal.key)
		require.False(t, removal.removal.Alone(), "the acknowledgement may be the next one's")
		removal.answer(answer{})
		s.find("Remove").answer(answer{}) // one is in the background
		require.True(t, withdrawal.returned())
		require.NoError(t, withdrawal.err)
		s.find("End").answer(answer{})
		require.False(t, next.isLost())
		require.Len(t, s.current.ballots, 1)
		require.Len(t, s.current.nonces, 1)
	})
}

// TestCloseWaitsForRemovalsOnACallersConnection of the session that was given up before.
func TestCloseWaitsForRemovalsOnACallersConnection(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.scripted.owned = false
		s.cast(1, Place{})
		s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
		s.scripted.session.ends(errDisk)
		s.next("Remove").fail(errLater)
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.False(t, closing.returned())
		time.Sleep(time.Second)
		s.find("Remove").answer(answer{})
		s.next("End").answer(answer{})
		require.True(t, closing.returned())
		require.NoError(t, closing.err)
	})
}

// TestStrayThatWaitsForASlot while a session on a caller's connection is given up: the entry still stands then, and is
// voided.
func TestStrayThatWaitsForASlot(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.scripted.owned = false
		stray := s.id + "ff"
		s.cast(1, Place{})
		for range Slots {
			s.campaign(t.Context(), "y")
		}
		s.current.stray("x", stray)
		require.Zero(t, s.count("Void"), "there is no slot")
		s.scripted.session.ends(errDisk)
		for range Slots {
			s.find("Enter").fail(store.ErrDenied)
		}
		require.Equal(t, stray, s.find("Void").nonce.Name)
	})
}

// TestResyncPassesOverLostBallots, for example of the session before, whose entries the next one knows.
func TestResyncPassesOverLostBallots(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.scripted.owned = false
		s.leading(1) // its work goes on
		s.scripted.session.ends(errDisk)
		s.scripted.sessions = 0 // the next has the same ID
		s.cast(2, behind)
		s.find("Entry").shows(other)
		s.find("Entry").shows(State{Token: 2})
		for range 3 {
			time.Sleep(pace)
			require.Equal(t, "other", s.find("Entry").shows(other).key)
			s.find("Entry").shows(State{Token: 2})
			s.quiet()
		}
	})
}

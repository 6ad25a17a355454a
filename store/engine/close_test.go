package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestCloseInOrder: the ballots are lost, the lease ends, the session is ended, the driver is closed.
func TestCloseInOrder(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
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
		_, err = s.openSession(t.Context()) // by a Campaign that does not know yet
		require.ErrorIs(t, err, store.ErrClosed)
		require.Equal(t, asked, s.asked, "the driver is closed")
	})
}

// TestCloseTellsTheBallotsBeforeTheCallsEnd: no Campaign wins in between.
func TestCloseTellsTheBallotsBeforeTheCallsEnd(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		late := s.campaign(t.Context(), "x")
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
		close(hold)
		require.True(t, late.returned())
		require.ErrorIs(t, late.err, store.ErrClosed)
		s.find("End").answer(answer{})
		require.True(t, closing.returned())
	})
}

// TestCloseWaitsForCallsInTheDriver before it closes it.
func TestCloseWaitsForCallsInTheDriver(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.leading(1)
		_, done, err := s.call(t.Context())
		require.NoError(t, err)
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.find("End").answer(answer{})
		require.False(t, closing.returned())
		require.False(t, s.isClosed())
		done()
		require.True(t, closing.returned())
	})
}

// TestCloseWaitsForItsOwnRequests in the driver before it closes it.
func TestCloseWaitsForItsOwnRequests(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		s.deaf.Store(true)
		time.Sleep(pace)
		confirm := s.next("Confirm")
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.False(t, closing.returned())
		require.False(t, s.isClosed())
		confirm.answer(answer{})
		require.True(t, closing.returned())
	})
}

// TestCloseWhileTheSessionOpens: it is ended, and nothing is cast in it.
func TestCloseWhileTheSessionOpens(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.campaign(t.Context(), "x")
		o := s.opening
		s.next("Open")
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.True(t, c.returned())
		require.ErrorIs(t, c.err, store.ErrClosed)
		require.ErrorIs(t, o.err, store.ErrClosed)
		require.True(t, closing.returned())
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.campaign(t.Context(), "x")
		open := s.next("Open")
		s.Engine.mu.Lock()
		s.ended = true // Close has begun
		s.Engine.mu.Unlock()
		open.answer(answer{})
		require.Zero(t, s.count("Enter"))
		s.next("End").answer(answer{})
		s.quiet()
		s.Engine.mu.Lock()
		s.ended = false // so that the store is closed
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

// TestCloseOfACallersConnection removes each entry, and waits for casts and orphans.
func TestCloseOfACallersConnection(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		b, _ := s.leading(1)
		s.campaign(t.Context(), "y")
		s.next("Enter")
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		require.True(t, b.isLost())
		require.Equal(t, 1, s.count("Void"), "of the cast that was under way")
		require.Zero(t, s.count("End"))
		s.find("Remove").answer(answer{})
		require.Zero(t, s.count("End"))
		s.find("Void").answer(answer{})
		s.next("End").answer(answer{})
		require.True(t, closing.returned())
	})
}

// TestCloseWaitsForAStray on a caller's connection, also for one that has no slot yet.
func TestCloseWaitsForAStray(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		b, _ := s.leading(1)
		for range Slots {
			s.campaign(t.Context(), "y")
		}
		require.Equal(t, Slots, s.count("Enter"))
		s.scripted.found(b.session.id, "z", s.id+"ff")
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		for range Slots + 1 { // the casts that were under way, and the stray
			require.Zero(t, s.count("End"))
			s.find("Void").answer(answer{})
		}
		s.find("Remove").answer(answer{})
		s.next("End").answer(answer{})
		require.True(t, closing.returned())
	})
}

// TestCloseLeavesBallotsOnACallersConnection if the service has not answered for some seconds, and logs that.
func TestCloseLeavesBallotsOnACallersConnection(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		s.leading(1)
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.next("Remove") // without an answer
		time.Sleep(endLimit)
		require.True(t, closing.returned())
		require.ErrorIs(t, closing.err, store.ErrUnavailable)
		require.ErrorContains(t, closing.err, "ballots stand")
	})
}

// TestCloseLeavesWhatWasRefused on a caller's connection, and names the ballots: one that was withdrawn before, and an
// orphan. A ballot that could be removed in the end is not named.
func TestCloseLeavesWhatWasRefused(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		b, _ := s.leading(1)
		removed, _ := s.leading(2)
		s.impatient()
		nonce := s.next("Void").nonce.Name
		s.next("Void").fail(store.ErrDenied)
		for _, b := range []*ballot{b, removed} {
			s.withdraw(t.Context(), b)
			s.next("Remove").fail(store.ErrDenied)
			s.next("Remove").fail(store.ErrDenied) // in the background
		}
		s.withdraw(t.Context(), removed)
		s.next("Remove").answer(answer{})
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.next("End").answer(answer{})
		require.True(t, closing.returned())
		require.ErrorIs(t, closing.err, store.ErrDenied)
		require.ErrorContains(t, closing.err, "own1")
		require.ErrorContains(t, closing.err, nonce)
		require.NotContains(t, closing.err.Error(), "own2")
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		s.impatient()
		s.next("Void").fail(store.ErrDenied)
		s.scripted.found(s.current.id, "x", s.id+"00000001") // it is met again
		s.next("Void").answer(answer{})
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.next("End").answer(answer{})
		require.True(t, closing.returned())
		require.NoError(t, closing.err)
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		b, _ := s.leading(1)
		s.withdraw(t.Context(), b)
		s.next("Remove").fail(store.ErrDenied)
		s.next("Remove").fail(store.ErrDenied)
		s.session.ends(nil)
		require.NoError(t, s.Engine.Close(), "the session has taken it along")
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		b, _ := s.leading(1)
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.next("Remove").fail(store.ErrDenied)
		s.next("End").answer(answer{})
		require.True(t, closing.returned())
		require.ErrorIs(t, closing.err, store.ErrDenied)
		require.True(t, b.isLost())
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		s.cast(1, Place{})
		s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
		s.scripted.session.ends(errDisk)
		s.next("Remove").fail(store.ErrDenied)
		s.next("End").answer(answer{})
		s.scripted.sessions = 0 // the next has the same ID
		s.cast(2, Place{})
		closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.find("Remove").answer(answer{})
		s.find("End").answer(answer{})
		require.True(t, closing.returned())
		require.ErrorContains(t, closing.err, "own1")
	})
}

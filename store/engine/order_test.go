package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestNearestThatHasGoneIsNotReadAgain, though its watch is over too: what is ahead is asked.
func TestNearestThatHasGoneIsNotReadAgain(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _, prev := s.waitingBehind(Place{Nearest: "other", More: true})
		prev.tells(News{State: &State{}, Over: true})
		s.next("Ahead").answer(answer{})
		require.True(t, b.isFirst())
		s.quiet()
	})
}

// TestNearestIsKnownToBeFirst, so nothing is asked when it has gone. What it was told before that does not count.
func TestNearestIsKnownToBeFirst(t *testing.T) {
	for _, last := range []bool{true, false} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			b, _, prev := s.waitingBehind(Place{Nearest: "other", More: true})
			prev.tells(News{State: &State{Token: 3, First: true}})
			prev.tells(News{State: &State{Token: 3, First: last}})
			prev.tells(News{State: &State{}})
			require.Equal(t, last, b.isFirst())
			if !last {
				s.next("Ahead").answer(answer{})
			}
			require.True(t, b.isFirst())
			s.quiet()
		})
	}
}

// TestLostIfTheOwnWatchEndsWithTheEntry: nothing is read again.
func TestLostIfTheOwnWatchEndsWithTheEntry(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, own := s.leading(1)
		own.tells(News{State: &State{}, Over: true})
		require.True(t, b.isLost())
		s.quiet()
	})
}

// TestFirstNotIfTheReadHasToldNothing: the watch was over before.
func TestFirstNotIfTheReadHasToldNothing(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		s.next("Entry").shows(State{}) // none is ahead by now
		own := s.next("Entry")
		own.tells(News{Over: true})
		own.answer(answer{stream: 1})
		require.False(t, b.isFirst())
		s.next("Entry").shows(State{Token: 7})
		require.True(t, b.isFirst())
	})
}

// TestWatchThatIsRefusedWhileTheBallotIsWithdrawn: the removal that is under way is enough.
func TestWatchThatIsRefusedWhileTheBallotIsWithdrawn(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		entry := s.next("Entry")
		s.deaf.Store(true)
		s.withdraw(t.Context(), b)
		entry.fail(store.ErrDenied)
		require.Equal(t, 1, s.count("Remove"))
		s.deaf.Store(false)
	})
}

// TestResyncOfAnObservation that is confirmed: its watch might have lost a change all the same.
func TestResyncOfAnObservation(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		time.Sleep(pace * 3 / 4)
		watch.tells(News{AsOf: time.Now()})
		s.quiet()
		time.Sleep(pace / 4)
		s.next("Leader").shows(State{Leader: two})
		require.Equal(t, two, s.observation().now().Leader)
		s.quiet()
	})
}

// TestAcknowledgeSaysThatItsBallotIsLost, also if the driver's error does not.
func TestAcknowledgeSaysThatItsBallotIsLost(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, own := s.leading(1)
		s.deaf.Store(true)
		c := s.acknowledge(b)
		own.goes()
		s.next("Acknowledge").fail(errLater)
		require.True(t, c.returned())
		require.ErrorIs(t, c.err, store.ErrLost)
		require.ErrorIs(t, c.err, store.ErrUnknownOutcome)
		s.deaf.Store(false)
	})
}

// TestReadThatIsOvertakenAndRefused costs no ballot: the read after it counts.
func TestReadThatIsOvertakenAndRefused(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, own, prev := s.waitingBehind(behind, 0)
		own.tells(News{})
		read := s.next("Entry")
		s.deaf.Store(true)
		prev.goes()
		require.Error(t, read.ctx.Err())
		read.fail(errDisk)
		require.False(t, b.isLost())
		s.next("Entry").shows(State{Token: 7}, 0)
		require.True(t, b.isFirst())
		s.deaf.Store(false)
	})
}

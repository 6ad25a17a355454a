package engine

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestReadWhoseOwnWatchHasToldMore: what a watch tells in turn is never older, as far as no time says so.
func TestReadWhoseOwnWatchHasToldMore(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		watch.tells(News{State: &State{Leader: two}})
		watch.tells(News{State: &State{Leader: one}})
		require.Equal(t, one, s.observation().now().Leader)
		s.quiet()
	})
}

// TestReadThatFindsNoLeader, after other news: there is none now, since no leader of before is named.
func TestReadThatFindsNoLeader(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		c := s.observe(nil)
		read := s.next("Leader")
		watch.tells(News{State: &State{Leader: two}})
		read.shows(State{})
		require.True(t, c.returned())
		require.Zero(t, c.value.Leader)
		s.quiet()
	})
}

// TestReplacedWatchIsNotListenedTo: once the watch after it has told a state, what it tells is ignored, and the end of it, too.
func TestReplacedWatchIsNotListenedTo(t *testing.T) {
	for name, late := range map[string]News{
		"another leader": {State: &State{Leader: store.Leader{Value: "three", Revision: 3}}},
		"no leader":      {State: &State{}},
		"over":           {Over: true},
		"look again":     {},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				old := s.watched()
				c := s.observe(nil)
				read := s.next("Leader").shows(State{Leader: two})
				require.True(t, c.returned())
				require.True(t, old.isStopped())
				old.tells(late) // it was on its way
				require.Equal(t, two, s.observation().now().Leader)
				s.quiet()
				read.tells(News{State: &State{Leader: one}})
				require.Equal(t, one, s.observation().now().Leader, "the new one is listened to")
			})
		})
	}
}

// TestObservationIgnoresAWatchThatIsOver, although the read that replaces it has not been answered.
func TestObservationIgnoresAWatchThatIsOver(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		watch.tells(News{Over: true})
		watch.tells(News{State: &State{Leader: two}})
		require.Equal(t, one, s.observation().now().Leader)
		s.next("Leader").shows(State{Leader: one})
		s.quiet()
	})
}

// TestReadThatWaitsForAPlace has not begun: callers that come meanwhile need no other.
func TestReadThatWaitsForAPlace(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range places {
			go func() { _, _ = s.Observe(context.Background(), strconv.Itoa(i), nil) }()
		}
		synctest.Wait()
		first, second := s.leader(nil), s.leader(nil)
		s.next("Leader").shows(State{})
		last := s.all()[places-1]
		require.Equal(t, "x", last.election)
		last.shows(State{Leader: one})
		require.True(t, first.returned() && second.returned())
		require.Equal(t, one, second.value)
		require.Equal(t, places-1, s.count("Leader"))
	})
}

package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestPresentLeaderIsConfirmed, if the server that answers the read might be behind, as on ZooKeeper: it says as of when
// it knows. A caller that does not need the present leader takes what it says.
func TestPresentLeaderIsConfirmed(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		earlier := time.Now()
		time.Sleep(time.Second)
		s.confirms.Store(true)
		old := s.observe(&store.Known{Leader: two})
		watch := s.next("Leader")
		watch.tells(News{State: &State{Leader: one}, AsOf: earlier})
		watch.answer(answer{stream: 1})
		require.True(t, old.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: earlier}, old.value)
		s.quiet()

		called := time.Now()
		c := s.observe(nil)
		watch = s.next("Leader")
		watch.tells(News{State: &State{Leader: one}, AsOf: earlier})
		watch.answer(answer{stream: 1})
		require.False(t, c.returned(), "the server might be behind")
		confirm := s.next("Confirm")
		confirm.fail(errLater)
		time.Sleep(400 * time.Millisecond)
		s.next("Confirm").answer(answer{}) // but nothing was told
		s.quiet()
		time.Sleep(400 * time.Millisecond)
		confirm = s.next("Confirm")
		watch.tells(News{State: &State{Leader: two}})
		require.False(t, c.returned())
		watch.tells(News{AsOf: called})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: two, AsOf: called}, c.value)
		confirm.answer(answer{})
		s.quiet()
		s.observe(nil)
		s.next("Leader") // at once: nothing was of no use
	})
}

// TestNewsWithoutATimeIsNotConfirmed: a watch that has said as of when it knows goes on from there, also if it tells of a
// change before it has been set.
func TestNewsWithoutATimeIsNotConfirmed(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		earlier := time.Now()
		time.Sleep(time.Second)
		s.confirms.Store(true)
		c := s.observe(nil)
		watch := s.next("Leader")
		watch.tells(News{State: &State{Leader: one}, AsOf: earlier})
		watch.shows(State{Leader: two})
		require.False(t, c.returned(), "the server might be behind")
		require.Equal(t, store.Known{Leader: two, AsOf: earlier}, s.observation().now())
		s.next("Confirm")
	})
}

// TestCallersShareAConfirmation, and one without an answer holds back no read.
func TestCallersShareAConfirmation(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		earlier := time.Now()
		time.Sleep(time.Second)
		s.confirms.Store(true)
		var calls []*call[store.Known]
		for range 10 {
			calls = append(calls, s.observe(nil))
		}
		var watch *request
		for s.count("Leader") > 0 {
			watch = s.find("Leader")
			watch.tells(News{State: &State{Leader: one}, AsOf: earlier})
			watch.answer(answer{stream: 1})
		}
		require.Equal(t, 1, s.count("Confirm"))
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, 1, s.count("Confirm"), "one is under way")
		}
		watch.tells(News{Over: true})
		s.find("Leader").shows(State{Leader: two})
		for _, c := range calls {
			require.True(t, c.returned())
			require.Equal(t, two, c.value.Leader)
		}
	})
}

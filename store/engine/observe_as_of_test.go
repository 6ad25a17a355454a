package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestAsOfOfAReadThatTellsNone, as on etcd if an event overtakes the answer: AsOf is when the engine asked.
func TestAsOfOfAReadThatTellsNone(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		asked := time.Now()
		c := s.observe(nil)
		read := s.next("Leader")
		time.Sleep(time.Second)
		read.shows(State{Leader: one})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: asked}, c.value)
	})
}

// TestAsOfOfAReadThatToldNoState, since its watch was over before, is that of the known state.
func TestAsOfOfAReadThatToldNoState(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		known := s.observation().now()
		time.Sleep(time.Second)
		watch.tells(News{Over: true})
		read := s.next("Leader")
		read.tells(News{Over: true})
		read.answer(answer{})
		require.Equal(t, known, s.observation().now())
		s.quiet()
		time.Sleep(50 * time.Millisecond)
		s.next("Leader") // again
	})
}

// TestReadThatIsOvertakenByNews: its answer comes after the news of a later change. The news, the answer of a long
// poll, has an earlier AsOf than the read.
func TestReadThatIsOvertakenByNews(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched() // one leads
		began := s.observation().now().AsOf
		time.Sleep(time.Second)
		c := s.observe(nil)
		read := s.next("Leader")
		watch.tells(News{State: &State{}, AsOf: began})
		require.Equal(t, store.Known{AsOf: began}, s.observation().now())
		read.shows(State{Leader: one})
		require.Equal(t, store.Known{AsOf: began}, s.observation().now(), "a leader who had gone")
		require.False(t, c.returned())
		time.Sleep(50 * time.Millisecond)
		again := s.next("Leader")
		watch.tells(News{State: &State{Leader: two}, AsOf: began})
		watch.tells(News{State: &State{}, AsOf: began})
		third := store.Leader{Value: "third", Revision: two.Revision + 1}
		again.shows(State{Leader: third})
		require.True(t, c.returned(), "no other can have come before")
		require.Equal(t, third, c.value.Leader)
		s.quiet()
	})
}

// TestReadThatIsOlderThanAConfirmation: its answer comes last, and names a leader that was gone by then.
func TestReadThatIsOlderThanAConfirmation(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		c := s.observe(nil)
		read := s.next("Leader")
		time.Sleep(time.Second)
		watch.tells(News{State: &State{}})
		watch.tells(News{AsOf: time.Now()})
		known := s.observation().now()
		require.Equal(t, store.Known{AsOf: time.Now()}, known)
		read.shows(State{Leader: one})
		require.Equal(t, known, s.observation().now())
		read.tells(News{State: &State{Leader: one}}) // an event of the time between
		require.Equal(t, known, s.observation().now())
		require.False(t, c.returned(), "no read that began after the call has told a state")
		time.Sleep(50 * time.Millisecond)
		s.next("Leader").shows(State{})
		require.True(t, c.returned())
	})
}

// TestLeaderIsReadAfterASuspension: what is known is as old as a lease would count it, whatever the monotonic clock says.
func TestLeaderIsReadAfterASuspension(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		time.Sleep(time.Millisecond)
		s.quiet()
		defer suspension.Simulate(time.Hour)()
		time.Sleep(pace / 2) // freshen looks that often
		read := s.next("Leader")
		require.False(t, watch.isStopped())
		read.shows(State{Leader: one})
		require.Equal(t, time.Now().Add(-time.Millisecond), s.observation().now().AsOf)
	})
}

package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestAsOfOfAReadThatTellsNone, as on etcd if an event overtakes the answer: it was sent after the engine had asked.
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

// TestAsOfOfAReadThatToldNoState, since its watch was over before, is that of the state that is known.
func TestAsOfOfAReadThatToldNoState(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.polled()
		known := s.poll().now()
		time.Sleep(time.Second)
		watch.tells(News{Over: true})
		read := s.next("Leader")
		read.tells(News{Over: true})
		read.answer(answer{})
		require.Equal(t, known, s.poll().now())
		s.next("Leader") // again
	})
}

// TestReadThatIsOlderThanAConfirmation: its answer comes last, and tells of a leader who had gone by then.
func TestReadThatIsOlderThanAConfirmation(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.polled()
		asked := time.Now()
		c := s.observe(nil)
		read := s.next("Leader")
		time.Sleep(time.Second)
		watch.tells(News{State: &State{}})
		watch.tells(News{AsOf: time.Now()})
		known := s.poll().now()
		require.Equal(t, store.Known{AsOf: time.Now()}, known)
		read.shows(State{Leader: one, AsOf: asked})
		require.Equal(t, known, s.poll().now())
		read.tells(News{State: &State{Leader: one}}) // an event of the time between
		require.Equal(t, known, s.poll().now())
		require.False(t, c.returned(), "no read that began after the call has told a state")
		s.next("Leader").shows(State{AsOf: time.Now()})
		require.True(t, c.returned())
	})
}

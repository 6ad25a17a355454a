package engine

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestLowerRevisionOfANewWatch is shown to followers: the service has lost transactions, as its driver has proved before
// it told that. What the watch before still tells is not, nor is a lower revision that another watch has overtaken.
func TestLowerRevisionOfANewWatch(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		began := time.Now()
		c := s.observe(nil)
		before := s.next("Leader").shows(State{Leader: two})
		require.True(t, c.returned())
		c = s.observe(&c.value)
		before.tells(News{Over: true})
		time.Sleep(time.Second)
		after := s.next("Leader").shows(State{Leader: one})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: began}, c.value)
		before.tells(News{State: &State{Leader: two}, AsOf: began.Add(2 * time.Second)})
		require.Equal(t, c.value, s.observation().now())

		three := store.Leader{Value: "three", Revision: 3}
		c = s.observe(&c.value)
		s.observation().refresh()
		late := s.next("Leader")
		after.tells(News{State: &State{Leader: three}})
		require.True(t, c.returned())
		require.Equal(t, three, c.value.Leader)
		late.shows(State{Leader: two})
		require.Equal(t, three, s.observation().now().Leader)
		time.Sleep(50 * time.Millisecond)
		s.next("Leader").shows(State{Leader: three})
		s.quiet()
	})
}

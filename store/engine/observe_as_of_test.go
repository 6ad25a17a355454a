package engine

import (
	"context"
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

// TestAsOfOfAReadThatTellsAnEarlierOne, as on ZooKeeper, whose servers might lag behind: the engine takes that time.
func TestAsOfOfAReadThatTellsAnEarlierOne(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		confirmed := time.Now()
		time.Sleep(time.Second)
		c := s.observe(&store.Known{Leader: two})
		read := s.next("Leader")
		read.tells(News{State: &State{Leader: one, AsOf: confirmed}})
		read.tells(News{State: &State{Leader: one}}) // an event of before
		read.answer(answer{})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: confirmed}, c.value)
	})
}

// syncing is the scripted driver as one whose servers may be behind.
type syncing struct{ *scripted }

func (s syncing) Sync(ctx context.Context) error { return s.ask(ctx, &request{op: "Sync"}).err }

// TestPresentLeaderIsReadAfterASync, if the caller needs it. No other read is.
func TestPresentLeaderIsReadAfterASync(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.Engine.driver = syncing{s.scripted} // nothing has been asked yet
		earlier := time.Now()
		old := s.observe(&store.Known{Leader: two})
		watch := s.next("Leader").shows(State{Leader: one, AsOf: earlier})
		require.True(t, old.returned())
		for range 2 {
			c := s.observe(nil)
			s.next("Sync").fail(errLater)
			time.Sleep(100 * time.Millisecond)
			s.next("Sync").answer(answer{})
			synced := time.Now()
			s.next("Leader").fail(errLater)
			time.Sleep(100 * time.Millisecond)
			again := s.next("Sync") // the read has begun again
			late := s.observe(nil)
			again.answer(answer{})
			s.next("Leader").shows(State{Leader: one, AsOf: synced})
			require.True(t, c.returned())
			require.Equal(t, store.Known{Leader: one, AsOf: synced}, c.value)
			require.False(t, late.returned(), "that began before the call")
			s.next("Sync").answer(answer{})
			watch = s.next("Leader").shows(State{Leader: one, AsOf: synced})
			require.True(t, late.returned())
		}
		watch.tells(News{Over: true})
		s.next("Leader").shows(State{Leader: two, AsOf: earlier.Add(time.Hour)})
		s.quiet()
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
		asked := time.Now()
		c := s.observe(nil)
		read := s.next("Leader")
		watch.tells(News{State: &State{AsOf: began}})
		require.Equal(t, store.Known{AsOf: began}, s.observation().now())
		read.shows(State{Leader: one, AsOf: asked})
		require.Equal(t, store.Known{AsOf: began}, s.observation().now(), "a leader who had gone")
		require.False(t, c.returned())
		again := s.next("Leader")
		watch.tells(News{State: &State{Leader: two, AsOf: began}})
		watch.tells(News{State: &State{AsOf: began}})
		third := store.Leader{Value: "third", Revision: two.Revision + 1}
		again.shows(State{Leader: third, AsOf: time.Now()})
		require.True(t, c.returned(), "no other can have come before")
		require.Equal(t, third, c.value.Leader)
		s.quiet()
	})
}

// TestReadThatIsOlderThanAConfirmation: its answer comes last, and names a leader that was gone by then.
func TestReadThatIsOlderThanAConfirmation(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
		asked := time.Now()
		c := s.observe(nil)
		read := s.next("Leader")
		time.Sleep(time.Second)
		watch.tells(News{State: &State{}})
		watch.tells(News{AsOf: time.Now()})
		known := s.observation().now()
		require.Equal(t, store.Known{AsOf: time.Now()}, known)
		read.shows(State{Leader: one, AsOf: asked})
		require.Equal(t, known, s.observation().now())
		read.tells(News{State: &State{Leader: one}}) // an event of the time between
		require.Equal(t, known, s.observation().now())
		require.False(t, c.returned(), "no read that began after the call has told a state")
		s.next("Leader").shows(State{AsOf: time.Now()})
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
		asked := time.Now()
		read.shows(State{Leader: one, AsOf: asked})
		require.Equal(t, asked, s.observation().now().AsOf)
	})
}

// TestAnswerThatASuspensionDelayed says little of now: the leader is read again.
func TestAnswerThatASuspensionDelayed(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.observe(nil)
		read := s.next("Leader")
		asked := time.Now()
		time.Sleep(time.Millisecond)
		defer suspension.Simulate(time.Hour)()
		read.shows(State{Leader: one, AsOf: asked})
		s.next("Leader").shows(State{Leader: one, AsOf: time.Now()})
		s.quiet()
	})
}

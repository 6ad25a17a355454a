package engine

import (
	"context"
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

// TestAsOfOfAReadThatTellsAnEarlierOne, as on ZooKeeper, whose servers may be behind, is that.
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

// TestPresentLeaderIsReadAfterASync, for a caller who needs it, and no other read is.
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
			time.Sleep(50 * time.Millisecond)
			s.next("Sync").answer(answer{})
			synced := time.Now()
			s.next("Leader").fail(errLater)
			time.Sleep(50 * time.Millisecond)
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

// TestPeek shows what Observe would return, and wakes no call that waits for another leader alone.
func TestPeek(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, ok := s.Peek("x")
		require.False(t, ok, "nothing is known")
		first := s.observe(nil)
		_, ok = s.Peek("x")
		require.False(t, ok, "nothing has been answered")
		began := time.Now()
		watch := s.next("Leader").shows(State{Leader: one, AsOf: began})
		require.True(t, first.returned())
		asleep := s.observe(&store.Known{Leader: one, AsOf: store.Never})
		dated := s.observe(&first.value)
		require.False(t, asleep.returned())
		changed := s.poll().changed
		watch.tells(News{AsOf: began.Add(1)})
		require.True(t, dated.returned())
		require.NotEqual(t, changed, s.poll().changed, "all were woken, for the one that waits for a time")
		changed = s.poll().changed
		watch.tells(News{AsOf: began.Add(2)})
		require.Equal(t, changed, s.poll().changed, "none was woken")
		known, ok := s.Peek("x")
		require.True(t, ok)
		require.Equal(t, store.Known{Leader: one, AsOf: began.Add(2)}, known)
		require.False(t, asleep.returned())
		watch.tells(News{State: &State{Leader: two}})
		require.True(t, asleep.returned())
		known, _ = s.Peek("x")
		require.Equal(t, asleep.value, known)
		s.quiet()
	})
}

// TestPeekIsNotAheadOfTheOwnAcknowledgement: until it has been told, what was known before it stands. A confirmation asks
// for it, if the watch does not tell.
func TestPeekIsNotAheadOfTheOwnAcknowledgement(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		watch := s.polled()
		before, _ := s.Peek("x")
		asleep := s.observe(&store.Known{Leader: one, AsOf: store.Never})
		c := s.acknowledge(b)
		s.next("Acknowledge").answer(answer{revision: 9})
		require.True(t, c.returned())
		s.quiet()
		later := before.AsOf.Add(time.Second)
		watch.tells(News{AsOf: later})
		known, ok := s.Peek("x")
		require.True(t, ok)
		require.Equal(t, before, known)
		s.next("Leader").shows(State{Leader: one}) // the acknowledgement has gone again
		known, _ = s.Peek("x")
		require.Equal(t, one, known.Leader)
		require.False(t, known.AsOf.Before(later))
		require.False(t, asleep.returned())
		s.quiet()
	})
}

package engine

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestConfirmationOfAnotherWatch confirms nothing that was reported before: that of a watch that has not reported a
// state yet, or is over.
func TestConfirmationOfAnotherWatch(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		known := s.observation().now()
		watch.tells(News{Over: true})
		next := s.next("Leader")
		watch.tells(News{AsOf: known.AsOf.Add(1)})
		next.tells(News{AsOf: known.AsOf.Add(2)})
		require.Equal(t, known, s.observation().now())
		next.shows(State{Leader: one})
		next.tells(News{AsOf: known.AsOf.Add(3)})
		require.Equal(t, known.AsOf.Add(3), s.observation().now().AsOf)
	})
}

// TestLeaderIsReadWhenConfirmationsStayAway, so that the known state is never older than TTL/2 and two round trips.
func TestLeaderIsReadWhenConfirmationsStayAway(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range 5 { // which are resynced before
			s.leading(uint64(i + 1))
		}
		watch := s.watched()
		known := s.observation().now().AsOf
		s.leader(&one)
		time.Sleep(pace)
		watch.tells(News{AsOf: known.Add(pace * 9 / 10)})
		time.Sleep(pace)
		require.Zero(t, s.count("Leader"), "the confirmation is not overdue")
		time.Sleep(pace)
		require.Equal(t, 1, s.count("Leader"))
		read := s.find("Leader")
		time.Sleep(pace * 3 / 4)
		read.shows(State{Leader: one})
		require.Zero(t, s.count("Leader"), "one read at a time")
		require.LessOrEqual(t, time.Since(s.observation().now().AsOf), ttl/2)
	})
}

// TestEachOfManyObservationsIsFresh: none is older than TTL/2 and the time for an answer, whenever it began, although
// nothing is ever confirmed.
func TestEachOfManyObservationsIsFresh(t *testing.T) {
	const trip = 100 * time.Millisecond
	play(t, Settings{}, func(t *testing.T, s *scene) {
		asked := map[*request]time.Time{}
		var elections []string
		for step := range 40 {
			if step < 20 {
				elections = append(elections, strconv.Itoa(step))
				go func() { _, _ = s.Observe(t.Context(), elections[step], nil) }()
			}
			for next := time.Now().Add(ttl / 37); time.Now().Before(next); time.Sleep(trip / 10) {
				synctest.Wait()
				for _, r := range s.all() {
					if _, ok := asked[r]; !ok {
						asked[r] = time.Now()
					}
					if time.Since(asked[r]) >= trip {
						r.shows(State{Leader: one})
					}
				}
				for _, election := range elections {
					if asOf := s.observations[election].now().AsOf; !asOf.IsZero() {
						require.LessOrEqual(t, time.Since(asOf), ttl/2+2*trip)
					}
				}
			}
		}
	})
}

// TestConfirmIsSentAgainWhenItIsAnswered: one at a time.
func TestConfirmIsSentAgainWhenItIsAnswered(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		time.Sleep(pace)
		first := s.next("Confirm")
		time.Sleep(pace)
		require.Equal(t, 1, s.count("Confirm"))
		first.answer(answer{})
		time.Sleep(pace)
		s.next("Confirm").fail(errLater)
		time.Sleep(pace)
		s.next("Confirm")
	})
}

// TestLeaderIsReadWhileAConfirmationHasNoAnswer, so that the known state does not get older meanwhile.
func TestLeaderIsReadWhileAConfirmationHasNoAnswer(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		c := s.leader(nil)
		s.find("Leader").shows(State{Leader: one})
		require.True(t, c.returned())
		s.leader(&one)
		for range 4 {
			time.Sleep(2 * pace)
			s.find("Confirm")
			s.find("Leader").shows(State{Leader: one})
			require.LessOrEqual(t, time.Since(s.observation().now().AsOf), ttl/2)
		}
	})
}

// TestConfirmWithoutAnAnswer ends after a TTL, and is sent again: a request that was lost stops no confirmation for good.
func TestConfirmWithoutAnAnswer(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		time.Sleep(pace)
		lost := s.next("Confirm")
		time.Sleep(ttl - time.Nanosecond)
		require.NoError(t, lost.ctx.Err())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Error(t, lost.ctx.Err())
		time.Sleep(pace)
		require.NotSame(t, lost, s.next("Confirm"))
	})
}

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
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
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
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
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
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
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

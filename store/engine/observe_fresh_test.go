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
// state yet, even when it has been set, or that is over.
func TestConfirmationOfAnotherWatch(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		known := s.observation().now()
		time.Sleep(time.Second)
		watch.tells(News{Over: true})
		next := s.next("Leader")
		watch.tells(News{AsOf: known.AsOf.Add(1)})
		next.tells(News{AsOf: known.AsOf.Add(2)})
		require.Equal(t, known, s.observation().now())
		next.tells(News{Over: true})
		next.answer(answer{})
		require.Equal(t, known, s.observation().now())
		s.quiet()
		time.Sleep(50 * time.Millisecond)
		next = s.next("Leader").shows(State{Leader: one})
		next.tells(News{AsOf: time.Now().Add(3)})
		require.Equal(t, time.Now().Add(3), s.observation().now().AsOf)
	})
}

// TestLeaderIsReadWhenConfirmationsStayAway, so that the known state is never older than TTL/2 and two round trips. The
// time that the machine was suspended counts.
func TestLeaderIsReadWhenConfirmationsStayAway(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range 5 { // which are resynced before
			s.leading(uint64(i + 1))
		}
		watch := s.watched()
		known := s.observation().now().AsOf
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
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		time.Sleep(time.Millisecond)
		s.quiet()
		defer suspension.Simulate(time.Hour)()
		time.Sleep(pace / 2) // resyncOld looks that often
		read := s.next("Leader")
		require.False(t, watch.isStopped())
		read.shows(State{Leader: one})
		require.Equal(t, time.Now().Add(-time.Millisecond), s.observation().now().AsOf)
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

// TestConfirmIsSentAgainWhenItIsAnswered: one at a time. A request that is lost ends after a TTL. What is known does not
// get older meanwhile.
func TestConfirmIsSentAgainWhenItIsAnswered(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		c := s.observe(nil)
		s.find("Leader").shows(State{Leader: one})
		c.succeeds(t)
		s.follow()
		time.Sleep(pace)
		first := s.find("Confirm")
		s.find("Leader").shows(State{Leader: one}) // its resync
		time.Sleep(pace)
		require.Equal(t, 1, s.count("Confirm"))
		first.answer(answer{})
		time.Sleep(pace)
		s.find("Confirm").fail(Answered(errLater))
		time.Sleep(pace)
		lost := s.find("Confirm")
		for range 4 {
			require.NoError(t, lost.ctx.Err())
			require.Equal(t, 1, s.count("Confirm"))
			if s.count("Leader") > 0 {
				s.find("Leader").shows(State{Leader: one})
			}
			require.LessOrEqual(t, time.Since(s.observation().now().AsOf), ttl/2)
			time.Sleep(pace)
		}
		synctest.Wait()
		require.Error(t, lost.ctx.Err())
		time.Sleep(pace)
		require.NotSame(t, lost, s.find("Confirm"))
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
		c.succeeds(t)
		require.Equal(t, store.Known{Leader: one, AsOf: asked}, c.value)
	})
}

// TestReadThatIsOvertakenByNews: its answer comes after news of a later change, and names a leader of before. The news, the
// answer of a long poll, have an earlier AsOf than the read, or a later one. What is known stays, and the leader is read
// again.
func TestReadThatIsOvertakenByNews(t *testing.T) {
	for name, c := range map[string]struct {
		news   []store.Leader
		answer store.Leader
	}{
		"a leader who has gone":    {[]store.Leader{{}}, one},
		"a leader before the next": {[]store.Leader{{}, two, {}, three}, two},
	} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, watch *request) {
				began := s.observation().now().AsOf
				time.Sleep(time.Second)
				call := s.observe(nil)
				read := s.next("Leader")
				for _, leader := range c.news {
					watch.tells(News{State: &State{Leader: leader}, AsOf: began})
				}
				known := store.Known{Leader: c.news[len(c.news)-1], AsOf: began}
				require.Equal(t, known, s.observation().now())
				time.Sleep(time.Second)
				watch.tells(News{AsOf: time.Now()})
				known.AsOf = time.Now()
				read.shows(State{Leader: c.answer})
				require.Equal(t, known, s.observation().now())
				read.tells(News{State: &State{Leader: c.answer}}) // an event of the time between
				require.Equal(t, known, s.observation().now())
				require.False(t, call.returned(), "no read that began after the call has told a state")
				time.Sleep(50 * time.Millisecond)
				s.next("Leader").shows(State{Leader: three})
				s.tellsOf(call, three)
				s.quiet()
			})
		})
	}
	for _, leader := range []store.Leader{two, three, {}} { // the same, a later one, and none: there is none now
		playWatching(t, func(t *testing.T, s *scene, watch *request) {
			c := s.observe(nil)
			read := s.next("Leader")
			watch.tells(News{State: &State{Leader: two}})
			read.shows(State{Leader: leader})
			s.tellsOf(c, leader)
			s.quiet()
		})
	}
}

// TestResyncOfAnObservation that is confirmed: its watch might have lost a change all the same.
func TestResyncOfAnObservation(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		time.Sleep(pace * 3 / 4)
		watch.tells(News{AsOf: time.Now()})
		s.quiet()
		time.Sleep(pace / 4)
		s.next("Leader").shows(State{Leader: two})
		s.knows(two)
		s.quiet()
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
		watch.shows(State{Leader: two}) // a change before the watch has been set, without a time
		require.False(t, c.returned(), "the server might be behind")
		require.Equal(t, store.Known{Leader: two, AsOf: earlier}, s.observation().now())
		confirm := s.next("Confirm")
		confirm.fail(errLater)
		time.Sleep(400 * time.Millisecond)
		s.next("Confirm").answer(answer{}) // but nothing was told
		s.quiet()
		time.Sleep(400 * time.Millisecond)
		confirm = s.next("Confirm")
		watch.tells(News{State: &State{Leader: three}})
		require.False(t, c.returned())
		watch.tells(News{AsOf: called})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: three, AsOf: called}, c.value)
		confirm.answer(answer{})
		s.quiet()
		s.observe(nil)
		s.next("Leader") // at once: nothing was of no use
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
		for range 10 {
			require.Equal(t, 1, s.count("Confirm"), "one is under way")
			time.Sleep(100 * time.Millisecond)
		}
		watch.tells(News{Over: true})
		s.find("Leader").shows(State{Leader: two})
		for _, c := range calls {
			s.tellsOf(c, two)
		}
	})
}

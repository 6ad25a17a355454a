package engine

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConfirmationOfAnotherWatch confirms nothing that was reported before: that of a watch that has not reported a
// state yet, or is over.
func TestConfirmationOfAnotherWatch(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
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

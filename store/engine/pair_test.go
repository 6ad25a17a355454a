package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pairing is the scripted driver as one that reads two entries in one request.
type pairing struct{ *scripted }

func (s pairing) Pair(ctx context.Context, own, nearest string, tellOwn, tellNearest Tell) (o, n Watch, err error) {
	r, second := &request{op: "Pair", key: own, tell: tellOwn}, &request{op: "Pair", key: nearest, tell: tellNearest}
	r.pair, second.driver = second, s.scripted
	if o, err = s.watch(ctx, r); err != nil {
		return o, n, err
	}
	return o, Watch{Stream: o.Stream, Stop: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		second.stopped = true
	}}, nil
}

// showPair tells both states and says that both watches are set.
func (r *request) showPair(own, nearest State) (o, n *request) {
	r.tell(News{State: &own})
	r.pair.tell(News{State: &nearest})
	r.answer(answer{stream: 1})
	return r, r.pair
}

// playPairs is play with such a driver.
func playPairs(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.Engine.driver = pairing{s.scripted} // nothing has been asked yet
		test(t, s)
	})
}

// TestPairIsReadInOneRequest: the own entry and the nearest ahead, whose end is then enough to lead.
func TestPairIsReadInOneRequest(t *testing.T) {
	playPairs(t, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		r := s.next("Pair")
		require.Equal(t, "own7", r.key)
		require.Equal(t, "other", r.pair.key)
		own, prev := r.showPair(State{Token: 7, Session: "session 1"}, other)
		s.quiet()
		require.False(t, b.isFirst())
		prev.goes()
		require.True(t, b.isFirst())
		s.quiet()
		require.True(t, prev.isStopped())
		require.False(t, own.isStopped())
	})
}

// TestPairOfWhichTheNearestHasGone: the own entry is read once more, since the pair may have been read before.
func TestPairOfWhichTheNearestHasGone(t *testing.T) {
	playPairs(t, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		s.next("Pair").showPair(State{Token: 7}, State{})
		require.False(t, b.isFirst())
		s.next("Entry").shows(State{Token: 7})
		require.True(t, b.isFirst())
	})
}

// TestPairOfWhichTheOwnHasGone is lost, and both watches are taken back.
func TestPairOfWhichTheOwnHasGone(t *testing.T) {
	playPairs(t, func(t *testing.T, s *scene) {
		s.deaf.Store(true) // the answer comes though the ballot is lost
		b := s.cast(7, behind)
		own, prev := s.next("Pair").showPair(State{}, other)
		require.True(t, b.isLost())
		s.quiet()
		require.True(t, own.isStopped())
		require.True(t, prev.isStopped())
	})
}

// TestPairIsReadAgain after an error, when both watches are over, and when it is the ballot is resynced. If
// one watch is over, one entry is read.
func TestPairIsReadAgain(t *testing.T) {
	playPairs(t, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		s.next("Pair").fail(errUnsent)
		time.Sleep(time.Second)
		own, prev := s.next("Pair").showPair(State{Token: 7}, other)
		s.quiet()

		prev.tells(News{Over: true})
		s.next("Entry").shows(other)
		s.quiet()
		require.True(t, prev.isStopped())

		b.resync()
		r := s.next("Pair")
		require.False(t, own.isStopped(), "as long as the next is not set")
		_, prev = r.showPair(State{Token: 7}, other)
		require.True(t, own.isStopped())
		s.quiet()
		prev.goes()
		require.True(t, b.isFirst())
	})
}

// TestPairMeetsAStray: the nearest ahead is of the own session and belongs to no ballot.
func TestPairMeetsAStray(t *testing.T) {
	playPairs(t, func(t *testing.T, s *scene) {
		s.cast(7, behind)
		s.next("Pair").showPair(State{Token: 7}, State{Token: 1, Session: "session 1", Nonce: s.id + "ff"})
		require.Equal(t, s.id+"ff", s.next("Void").nonce.Name)
	})
}

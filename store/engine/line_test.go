package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// several is the place of a ballot with more than one other ahead.
var several = Place{Nearest: "other", More: true}

// TestFirstAtOnce: the entry is watched all the same. The watch ends with the ballot, even before it is set.
func TestFirstAtOnce(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(1, Place{})
		require.True(t, b.isFirst(), "Enter has said so")
		own := s.next("Entry")
		require.Equal(t, "own1", own.key)
		s.withdraw(t.Context(), b)
		s.find("Remove").answer(answer{})
		s.quiet()
		require.Error(t, own.ctx.Err())
	})
}

// TestFirstWhenTheLastAheadGoes, reported in order: no request is sent.
func TestFirstWhenTheLastAheadGoes(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
		prev.goes()
		require.True(t, b.isFirst())
		s.quiet()
		require.True(t, prev.isStopped())
		require.False(t, own.isStopped())
		own.tells(News{State: &State{}, Over: true})
		require.True(t, b.isLost())
		require.Zero(t, s.count("Entry"), "nothing is read again")
	})
}

// TestFirstOnlyAfterARead of the ballot's entry, if the order of the two ends is not known. The read begins when the
// last entry ahead is known to be gone.
func TestFirstOnlyAfterARead(t *testing.T) {
	for name, c := range map[string]struct {
		streams [2]uint64 // of the nearest, and of the own
		prev    State
	}{
		"unordered":          {[2]uint64{0, 0}, other},
		"two streams":        {[2]uint64{1, 2}, other},
		"of the own session": {[2]uint64{1, 1}, State{Token: 1, Session: "session 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stands := range []bool{true, false} {
				play(t, Settings{}, func(t *testing.T, s *scene) {
					b := s.cast(7, behind)
					prev := s.next("Entry").shows(c.prev, c.streams[0])
					old := s.next("Entry").shows(State{Token: 7}, c.streams[1])
					s.quiet()
					prev.goes()
					require.False(t, b.isFirst())
					own := s.next("Entry")
					require.Equal(t, "own7", own.key)
					if stands {
						own.shows(State{Token: 7}, c.streams[1])
						require.True(t, b.isFirst())
						require.True(t, old.isStopped())
					} else {
						own.shows(State{}, c.streams[1])
						require.False(t, b.isFirst())
						require.True(t, b.isLost())
					}
					s.quiet()
				})
			}
		})
	}
}

// TestFirstNotBeforeBothAreWatched: what comes while a watch is being set has no order.
func TestFirstNotBeforeBothAreWatched(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		prev := s.next("Entry").shows(other)
		own := s.next("Entry")
		s.deaf.Store(true)
		prev.goes()
		require.False(t, b.isFirst())
		own.shows(State{Token: 7}) // by a read that was sent before that
		require.False(t, b.isFirst())
		prev.goes() // told again, which is no change
		require.False(t, b.isFirst())
		s.next("Entry").shows(State{Token: 7})
		require.True(t, b.isFirst())
		s.deaf.Store(false)
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		s.next("Entry").shows(State{}) // it is gone by now
		require.False(t, b.isFirst())
		own := s.next("Entry")
		own.tells(News{Over: true})
		own.answer(answer{stream: 1})
		require.False(t, b.isFirst(), "the watch was over before, and has told nothing")
		s.next("Entry").shows(State{Token: 7})
		require.True(t, b.isFirst())
	})
}

// TestFirstNotIfTheOwnWatchIsOver: it might have missed the end of the ballot's entry.
func TestFirstNotIfTheOwnWatchIsOver(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
		own.tells(News{Over: true})
		before := s.next("Entry")
		prev.goes()
		require.False(t, b.isFirst())
		require.Error(t, before.ctx.Err(), "it was sent before, and says too little")
		s.next("Entry").shows(State{})
		require.False(t, b.isFirst())
		require.True(t, b.isLost())
	})
}

// TestFirstOnlyIfNoOthersAreAhead.
func TestFirstOnlyIfNoOthersAreAhead(t *testing.T) {
	playWaiting(t, several, func(t *testing.T, s *scene, b *ballot, _, prev *request) {
		prev.goes()
		require.False(t, b.isFirst())
		ahead := s.next("Ahead")
		require.Equal(t, "own7", ahead.key)
		ahead.answer(answer{place: Place{Nearest: "leader"}})
		require.False(t, b.isFirst())
		require.True(t, prev.isStopped())
		next := s.next("Entry")
		require.Equal(t, "leader", next.key)
		prev.goes() // again, while the next is not watched yet
		require.False(t, b.isFirst())
		next.shows(other)
		prev.goes() // and late
		require.False(t, b.isFirst())
		s.quiet()
		next.goes()
		require.True(t, b.isFirst())
	})
}

// TestAhead: the answer proves that the entry stands, or that it does not. If the next has gone as well, that is read, and
// not reported in order. If the watch of the nearest ends with its entry, the nearest is not read again.
func TestAhead(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		first  bool
	}{
		"nothing":  {answer{}, true},
		"gone":     {answer{err: ErrGone}, false},
		"the next": {answer{place: Place{Nearest: "leader"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			playWaiting(t, several, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
				prev.tells(News{State: &State{}, Over: true})
				s.next("Ahead").answer(c.answer)
				if c.answer.place.Nearest != "" {
					s.next("Entry").shows(State{})
					require.False(t, b.isFirst())
					s.next("Entry").shows(State{Token: 7})
				}
				require.Equal(t, c.first, b.isFirst())
				require.Equal(t, !c.first, b.isLost())
				s.quiet()
			})
		})
	}
}

// TestAheadThatNamesTheSame entry, which is gone, for example because a member lags behind: it is watched again, after
// a moment.
func TestAheadThatNamesTheSame(t *testing.T) {
	playWaiting(t, several, func(t *testing.T, s *scene, b *ballot, _, prev *request) {
		prev.goes()
		s.next("Ahead").answer(answer{place: several})
		s.quiet()
		time.Sleep(50 * time.Millisecond)
		again := s.next("Entry")
		require.Equal(t, "other", again.key)
		prev.goes()        // late
		again.shows(other) // an obstacle that is back
		prev.goes()
		require.False(t, b.isFirst())
		require.True(t, prev.isStopped())
		s.quiet()
		again.goes()
		s.next("Ahead").answer(answer{})
		require.True(t, b.isFirst())
	})
}

// TestLostBeforeTheLastAheadGoes: it is never first.
func TestLostBeforeTheLastAheadGoes(t *testing.T) {
	for _, end := range []State{{}, {Token: 3}} { // the key is another entry's
		playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
			own.tell(News{State: &end})
			prev.tell(News{State: &State{}}) // before its goroutine has run
			require.True(t, b.isLost())
			require.False(t, b.isFirst())
			s.quiet()
			require.True(t, own.isStopped() && prev.isStopped())
		})
	}
}

// TestWatchThatIsOver is set again before the old one is cancelled.
func TestWatchThatIsOver(t *testing.T) {
	for name, news := range map[string]News{"over": {Over: true}, "look again": {}, "state and over": {Over: true, State: &other}} {
		t.Run(name, func(t *testing.T) {
			playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, _, prev *request) {
				prev.tells(news)
				again := s.next("Entry")
				require.Equal(t, "other", again.key)
				require.False(t, prev.isStopped())
				again.shows(other)
				require.True(t, prev.isStopped())
				s.quiet()
				again.tells(News{AsOf: time.Now()}) // nothing has changed
				s.quiet()
				again.goes()
				require.True(t, b.isFirst())
			})
		})
	}
	playLeading(t, func(t *testing.T, s *scene, _ *ballot, own *request) {
		own.tells(News{Over: true})
		again := s.next("Entry")
		require.Equal(t, "own1", again.key)
		require.False(t, own.isStopped())
		again.shows(State{Token: 1})
		require.True(t, own.isStopped())
		own.tells(News{Over: true}) // late
		s.quiet()
	})
}

// TestWatchThatFails is set again, after a moment, or at once when the nearest goes.
func TestWatchThatFails(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		s.next("Entry").fail(errLater)
		s.quiet()
		time.Sleep(50 * time.Millisecond)
		prev := s.next("Entry").shows(other)
		s.next("Entry").fail(Answered(errUnsent))
		time.Sleep(50 * time.Millisecond)
		s.next("Entry").fail(Answered(errLater))
		s.quiet()
		prev.goes()
		s.next("Entry").shows(State{Token: 7})
		require.True(t, b.isFirst())
		s.quiet()
	})
}

// TestResync: at each pace one ballot reads again everything that it depends on, the nearest first and its own entry
// last. So it finds what a watch has lost.
func TestResync(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.leading(1)
		b, _, _ := s.waitingBehind(behind)
		resynced := map[string]int{}
		for range 4 {
			time.Sleep(pace)
			first := s.next("Entry")
			resynced[first.key]++
			if first.key == "own1" {
				first.shows(State{Token: 1})
			} else {
				first.shows(other)
				s.next("Entry").shows(State{Token: 7})
			}
			s.quiet()
		}
		require.Equal(t, map[string]int{"own1": 2, "other": 2}, resynced)
		for !b.isFirst() {
			time.Sleep(pace)
			if r := s.next("Entry"); r.key == "other" {
				r.shows(State{}) // the watch has not reported that
				require.False(t, b.isFirst())
				s.next("Entry").shows(State{Token: 7})
				require.True(t, b.isFirst())
			} else {
				r.shows(State{Token: 1})
			}
		}
	})
}

// TestWatchesStayUntilTheRemoval: the next in line waits for the removal, and not for what takes the watches back.
func TestWatchesStayUntilTheRemoval(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
		s.withdraw(t.Context(), b)
		removal := s.next("Remove")
		require.False(t, own.isStopped() || prev.isStopped())
		removal.answer(answer{})
		require.True(t, own.isStopped() && prev.isStopped())
	})
}

// TestNearestIsKnownToBeFirst, so nothing is asked when it has gone. What it was told before that does not count.
func TestNearestIsKnownToBeFirst(t *testing.T) {
	for _, last := range []bool{true, false} {
		playWaiting(t, several, func(t *testing.T, s *scene, b *ballot, _, prev *request) {
			prev.tells(News{State: &State{Token: 3, First: true}})
			prev.tells(News{State: &State{Token: 3, First: last}})
			prev.goes()
			require.Equal(t, last, b.isFirst())
			if !last {
				s.next("Ahead").answer(answer{})
			}
			require.True(t, b.isFirst())
			s.quiet()
		})
	}
}

// TestKnownWhileItIsReadAgain: while a resync has no answer, what its old watches tell counts. So the ballot is first as
// soon as the nearest has gone, and no request is sent for that.
func TestKnownWhileItIsReadAgain(t *testing.T) {
	for _, held := range []string{"other", "own7"} {
		playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, _, prev *request) {
			time.Sleep(pace)
			read := s.next("Entry")
			if held == "own7" {
				prev = read.shows(other)
				read = s.next("Entry")
			}
			require.Equal(t, held, read.key)
			prev.tell(News{State: &State{}})
			require.True(t, closed(b.first), "within the call, so without a request")
			synctest.Wait()
			require.Error(t, read.ctx.Err(), "the read says nothing more")
		})
	}
}

// TestReadThatIsOvertaken: the nearest goes while it is read, or while the own entry is read, on another stream. That read
// was sent before, and says too little: the next one is sent at once. Even a refusal of that read costs nothing.
func TestReadThatIsOvertaken(t *testing.T) {
	for name, refused := range map[string]bool{"of the nearest": false, "of the own entry, and refused": true} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				b, own, prev := s.waitingBehind(behind, 0)
				s.deaf.Store(refused)
				if refused {
					own.tells(News{})
				} else {
					time.Sleep(pace)
				}
				before := s.next("Entry")
				prev.goes()
				require.Error(t, before.ctx.Err())
				if refused {
					before.fail(errDisk)
					require.False(t, b.isLost())
				}
				next := s.next("Entry")
				require.Equal(t, "own7", next.key)
				next.shows(State{Token: 7}, 0)
				require.True(t, b.isFirst())
				s.deaf.Store(false)
			})
		})
	}
}

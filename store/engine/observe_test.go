package engine

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

var (
	one = store.Leader{Value: "one", Revision: 1}
	two = store.Leader{Value: "two", Revision: 2}
)

// leader begins to wait for a leader that differs from prev.
func (s *scene) leader(prev *store.Leader) *call[store.Leader] {
	return start(func() (store.Leader, error) { return storetest.Leader(context.Background(), s.Engine, "x", prev) })
}

func (s *scene) observe(prev *store.Known) *call[store.Known] {
	return start(func() (store.Known, error) { return s.Observe(context.Background(), "x", prev) })
}

// watched begins to observe election "x", and returns the watch, which has reported a leader.
func (s *scene) watched() *request {
	s.Helper()
	c := s.leader(nil)
	r := s.next("Leader").shows(State{Leader: one})
	require.True(s, c.returned())
	require.Equal(s, one, c.value)
	return r
}

// playWatching is play with a leader that is watched.
func playWatching(t *testing.T, test func(t *testing.T, s *scene, watch *request)) {
	t.Helper()
	play(t, Settings{}, func(t *testing.T, s *scene) { test(t, s, s.watched()) })
}

// TestLeaderIsToldToAll who wait, by one watch.
func TestLeaderIsToldToAll(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		a, b := s.leader(&one), s.leader(&one)
		differs := s.leader(&two)
		require.True(t, differs.returned(), "at once")
		require.Equal(t, one, differs.value)
		s.quiet()
		require.False(t, a.returned())
		watch.tells(News{AsOf: time.Now()})
		require.False(t, a.returned())
		watch.tells(News{State: &State{Leader: two}})
		require.True(t, a.returned() && b.returned())
		require.Equal(t, two, a.value)
		s.quiet()
	})
}

// TestObserveWithAnEndedContext returns its cause, sends nothing, and returns no known state.
func TestObserveWithAnEndedContext(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		cause := errors.New("the caller's")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := s.Observe(ctx, "x", nil)
		require.ErrorIs(t, err, cause)
		s.quiet()
		s.watched()
		for _, prev := range []*store.Known{nil, {Leader: two}} {
			_, err = s.Observe(ctx, "x", prev)
			require.ErrorIs(t, err, cause)
		}
		s.quiet()
	})
}

// TestLeaderFromNothingIsFresh: the leader is read by a request that is sent after the call, although another is under
// way.
func TestLeaderFromNothingIsFresh(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		first := s.leader(nil)
		read := s.next("Leader")
		second := s.leader(nil)
		read.shows(State{Leader: one})
		require.True(t, first.returned())
		require.False(t, second.returned())
		s.next("Leader").shows(State{Leader: two})
		require.True(t, second.returned())
		require.Equal(t, two, second.value)
		require.True(t, read.isStopped())
		s.quiet()
	})
}

// TestLeaderOfAWatchThatIsOver is read anew. When the new watch has reported, reports of the old one are ignored.
func TestLeaderOfAWatchThatIsOver(t *testing.T) {
	for name, news := range map[string]News{"over": {Over: true}, "look again": {}, "state and over": {Over: true, State: &State{Leader: one}}} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, old *request) {
				c := s.leader(&one)
				old.tells(news)
				again := s.next("Leader")
				require.False(t, old.isStopped())
				again.tells(News{State: &State{Leader: two}})
				old.tells(News{State: &State{Leader: one}})
				require.Equal(t, two, s.observation().now().Leader)
				again.answer(answer{})
				require.True(t, c.returned())
				require.Equal(t, two, c.value)
				require.True(t, old.isStopped())
				old.tells(News{Over: true})
				s.quiet()
			})
		})
	}
}

func (s *scene) observation() *observation {
	s.Engine.mu.Lock()
	defer s.Engine.mu.Unlock()
	return s.observations["x"]
}

// TestLeaderOfAWatchThatIsOverBeforeItHasBeenSet is read again.
func TestLeaderOfAWatchThatIsOverBeforeItHasBeenSet(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.leader(nil)
		read := s.next("Leader")
		read.tells(News{State: &State{Leader: one}, Over: true})
		read.answer(answer{})
		require.True(t, c.returned())
		require.Equal(t, one, c.value)
		s.next("Leader").shows(State{Leader: two})
		require.True(t, read.isStopped())
		s.quiet()
	})
}

func TestLeaderIsReadAgainAfterAFailure(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.leader(nil)
		s.next("Leader").fail(errLater)
		s.quiet()
		time.Sleep(50 * time.Millisecond)
		s.next("Leader").shows(State{Leader: one})
		c.succeeds(t)
	})
}

// TestLeaderSaysWhyThereIsNoAnswer to a caller that gives up, until there is an answer.
func TestLeaderSaysWhyThereIsNoAnswer(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		impatient := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := s.Observe(ctx, "x", nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return err
		}
		require.NotErrorIs(t, impatient(), errUnsent, "nothing is known yet")
		s.next("Leader").fail(errUnsent)
		require.ErrorIs(t, impatient(), errUnsent)
		time.Sleep(time.Second)
		s.next("Leader").shows(State{Leader: one})
		require.NotErrorIs(t, impatient(), errUnsent)
	})
}

// TestLeaderThatIsRefused is reported to all who wait. The next caller asks again.
func TestLeaderThatIsRefused(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		a, b := s.leader(nil), s.leader(&one)
		s.next("Leader").fail(store.ErrDenied)
		require.True(t, a.returned() && b.returned())
		require.ErrorIs(t, a.err, store.ErrDenied)
		require.EqualError(t, b.err, `read the leader in election "x" on test://: permission denied`)
		s.quiet()
		time.Sleep(pace)
		s.next("Leader").fail(store.ErrDenied)
		a = s.leader(nil)
		s.next("Leader").shows(State{Leader: one})
		a.succeeds(t)
		b = s.leader(&one)
		s.quiet()
		require.False(t, b.returned())
	})
}

// TestObservationIsDroppedWhenItIsNotUsed for a TTL.
func TestObservationIsDroppedWhenItIsNotUsed(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		c := s.leader(&one)
		for range 8 { // it is used
			time.Sleep(pace)
			watch.tells(News{AsOf: time.Now()})
			if s.count("Leader") > 0 { // its resync
				again := s.next("Leader").shows(State{Leader: one})
				require.True(t, watch.isStopped())
				watch = again
			}
		}
		watch.tells(News{State: &State{Leader: two}, AsOf: time.Now()})
		require.True(t, c.returned())
		for range 4 {
			require.NotNil(t, s.observation())
			require.False(t, watch.isStopped())
			time.Sleep(pace)
			synctest.Wait()
			if s.count("Leader") > 0 {
				watch = s.next("Leader").shows(State{Leader: two})
			}
		}
		require.Nil(t, s.observation())
		require.True(t, watch.isStopped())
		watch.tells(News{Over: true}) // its reports are ignored
		s.quiet()
		s.leader(nil)
		s.next("Leader")
	})
}

// TestObserve returns when there is another leader, or a later time.
func TestObserve(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		began := time.Now()
		c := s.observe(nil)
		watch := s.next("Leader").shows(State{Leader: one})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: began}, c.value)
		c = s.observe(&c.value)
		require.False(t, c.returned())
		watch.tells(News{State: &State{Leader: one}, AsOf: began})
		watch.tells(News{AsOf: began.Add(-time.Second)})
		require.False(t, c.returned())
		require.Equal(t, began, s.observation().now().AsOf)
		watch.tells(News{AsOf: began.Add(time.Second)})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: began.Add(time.Second)}, c.value)
		c = s.observe(&c.value)
		watch.tells(News{State: &State{Leader: two}})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: two, AsOf: began.Add(time.Second)}, c.value, "no later: it may lead since then")
	})
}

func TestLeaderChecksItsArguments(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, err := s.Observe(t.Context(), "/", nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		ctx, cancel := context.WithCancelCause(t.Context())
		c := start(func() (store.Known, error) { return s.Observe(ctx, "x", nil) })
		cancel(errDisk)
		c.fails(t, errDisk)
	})
}

// TestReadWhoseOwnWatchHasToldMore: what a watch tells in turn is never older, as far as no time says so.
func TestReadWhoseOwnWatchHasToldMore(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		watch.tells(News{State: &State{Leader: two}})
		watch.tells(News{State: &State{Leader: one}})
		require.Equal(t, one, s.observation().now().Leader)
		s.quiet()
	})
}

// TestReadThatFindsNoLeader, after other news: there is none now, since no leader of before is named.
func TestReadThatFindsNoLeader(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		c := s.observe(nil)
		read := s.next("Leader")
		watch.tells(News{State: &State{Leader: two}})
		read.shows(State{})
		require.True(t, c.returned())
		require.Zero(t, c.value.Leader)
		s.quiet()
	})
}

// TestReplacedWatchIsNotListenedTo: once the watch after it has told a state, what it tells is ignored, and the end of it, too.
func TestReplacedWatchIsNotListenedTo(t *testing.T) {
	for name, late := range map[string]News{
		"another leader": {State: &State{Leader: store.Leader{Value: "three", Revision: 3}}},
		"no leader":      {State: &State{}},
		"over":           {Over: true},
		"look again":     {},
	} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, old *request) {
				c := s.observe(nil)
				read := s.next("Leader").shows(State{Leader: two})
				require.True(t, c.returned())
				require.True(t, old.isStopped())
				old.tells(late) // it was on its way
				require.Equal(t, two, s.observation().now().Leader)
				s.quiet()
				read.tells(News{State: &State{Leader: one}})
				require.Equal(t, one, s.observation().now().Leader, "the new one is listened to")
			})
		})
	}
}

// TestObservationIgnoresAWatchThatIsOver, although the read that replaces it has not been answered.
func TestObservationIgnoresAWatchThatIsOver(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		watch.tells(News{Over: true})
		watch.tells(News{State: &State{Leader: two}})
		require.Equal(t, one, s.observation().now().Leader)
		s.next("Leader").shows(State{Leader: one})
		s.quiet()
	})
}

// TestReadThatWaitsForAPlace has not begun: callers that come meanwhile need no other.
func TestReadThatWaitsForAPlace(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range places {
			go func() { _, _ = s.Observe(context.Background(), strconv.Itoa(i), nil) }()
		}
		synctest.Wait()
		first, second := s.leader(nil), s.leader(nil)
		s.next("Leader").shows(State{})
		last := s.all()[places-1]
		require.Equal(t, "x", last.election)
		last.shows(State{Leader: one})
		require.True(t, first.returned() && second.returned())
		require.Equal(t, one, second.value)
		require.Equal(t, places-1, s.count("Leader"))
	})
}

// TestCloseEndsObserve at once with ErrClosed, also if a watch reports what Close does.
func TestCloseEndsObserve(t *testing.T) {
	for name, news := range map[string][]News{"nothing is told": nil, "another leader is told": {{State: &State{Leader: two}}}} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, watch *request) {
				a, b := s.leader(&one), s.leader(&one)
				s.leading(1)
				closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
				for _, n := range news {
					watch.tells(n)
				}
				require.True(t, a.returned() && b.returned())
				s.find("End").answer(answer{})
				require.True(t, closing.returned())
				require.ErrorIs(t, a.err, store.ErrClosed)
				require.ErrorIs(t, b.err, store.ErrClosed)
			})
		})
	}
}

// TestCloseWhileTheAnswerIsKnown ends the call with ErrClosed: the known state might be what Close has done.
func TestCloseWhileTheAnswerIsKnown(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.watched()
		p := s.observation()
		callers := func() int {
			s.Engine.mu.Lock()
			defer s.Engine.mu.Unlock()
			return p.callers
		}
		result := make(chan error, 1)
		p.mu.Lock()
		go func() { _, err := s.Observe(context.Background(), "x", &store.Known{}); result <- err }()
		for callers() == 0 {
			runtime.Gosched()
		}
		s.life.Close()
		p.mu.Unlock()
		require.ErrorIs(t, <-result, store.ErrClosed)
	})
}

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

// TestResyncOfAnObservation that is confirmed: its watch might have lost a change all the same.
func TestResyncOfAnObservation(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		time.Sleep(pace * 3 / 4)
		watch.tells(News{AsOf: time.Now()})
		s.quiet()
		time.Sleep(pace / 4)
		s.next("Leader").shows(State{Leader: two})
		require.Equal(t, two, s.observation().now().Leader)
		s.quiet()
	})
}

// TestObserveNeverGoesBack: an observation that was dropped and made again knows an earlier time at first. A caller who knows
// a later one is not told that, whoever leads.
func TestObserveNeverGoesBack(t *testing.T) {
	for _, leader := range []store.Leader{one, two} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			began := time.Now()
			watch := s.watched()
			if leader != one {
				watch.tells(News{State: &State{Leader: leader}})
			}
			prev := store.Known{Leader: one, AsOf: began.Add(time.Second)} // from the observation before
			time.Sleep(2 * time.Second)
			c := s.observe(&prev)
			require.False(t, c.returned())
			s.next("Leader").shows(State{Leader: leader})
			require.True(t, c.returned())
			require.Equal(t, store.Known{Leader: leader, AsOf: time.Now()}, c.value)
			s.quiet()
		})
	}
}

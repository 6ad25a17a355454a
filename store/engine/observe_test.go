package engine

import (
	"context"
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
	one   = store.Leader{Value: "one", Revision: 1}
	two   = store.Leader{Value: "two", Revision: 2}
	three = store.Leader{Value: "three", Revision: 3}
)

func (s *scene) observe(prev *store.Known) *call[store.Known] {
	return start(func() (store.Known, error) { return s.Observe(context.Background(), "x", prev) })
}

// follow waits for another leader than one.
func (s *scene) follow() *call[store.Leader] {
	return start(func() (store.Leader, error) { return storetest.Leader(context.Background(), s.Engine, "x", &one) })
}

// after waits for other news than that the leader led at this time.
func (s *scene) after(leader store.Leader, asOf time.Time) *call[store.Known] {
	return s.observe(&store.Known{Leader: leader, AsOf: asOf})
}

// tellsOf checks that a call has returned with this leader.
func (s *scene) tellsOf(c *call[store.Known], want store.Leader) {
	s.Helper()
	c.succeeds(s)
	require.Equal(s, want, c.value.Leader)
}

// watched begins to observe election "x", and returns the watch, which has reported a leader.
func (s *scene) watched() *request {
	s.Helper()
	c := s.observe(nil)
	r := s.next("Leader").shows(State{Leader: one})
	s.tellsOf(c, one)
	return r
}

// playWatching is play with a leader that is watched.
func playWatching(t *testing.T, test func(t *testing.T, s *scene, watch *request)) {
	t.Helper()
	play(t, Settings{}, func(t *testing.T, s *scene) { test(t, s, s.watched()) })
}

func (s *scene) observation() *observation {
	s.Engine.mu.Lock()
	defer s.Engine.mu.Unlock()
	return s.observations["x"]
}

// knows checks which leader is known.
func (s *scene) knows(want store.Leader) {
	s.Helper()
	require.Equal(s, want, s.observation().now().Leader)
}

// TestObserve returns when there is another leader, or a later time, to all who wait, by one watch.
func TestObserve(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		began := time.Now()
		c := s.observe(nil)
		watch := s.next("Leader").shows(State{Leader: one})
		c.succeeds(t)
		require.Equal(t, store.Known{Leader: one, AsOf: began}, c.value)
		s.tellsOf(s.after(two, began), one) // at once
		c, also := s.observe(&c.value), s.observe(&c.value)
		s.quiet()
		watch.tells(News{State: &State{Leader: one}, AsOf: began})
		watch.tells(News{AsOf: began.Add(-time.Second)})
		require.False(t, c.returned())
		require.Equal(t, began, s.observation().now().AsOf)
		watch.tells(News{AsOf: began.Add(time.Second)})
		c.succeeds(t)
		also.succeeds(t)
		require.Equal(t, store.Known{Leader: one, AsOf: began.Add(time.Second)}, c.value)
		c = s.observe(&c.value)
		watch.tells(News{State: &State{Leader: two}})
		c.succeeds(t)
		require.Equal(t, store.Known{Leader: two, AsOf: began.Add(time.Second)}, c.value, "no later: it may lead since then")
		watch.tells(News{State: &State{Leader: one}})
		s.knows(one) // what one watch tells is never older
		s.quiet()
	})
}

// TestObserveEndsWithItsContext, and returns its cause. If the context has ended before, nothing is sent, and no known
// state is returned.
func TestObserveEndsWithItsContext(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, err := s.Observe(t.Context(), "/", nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		ctx, cancel := context.WithCancelCause(t.Context())
		c := start(func() (store.Known, error) { return s.Observe(ctx, "x", nil) })
		cancel(errDisk)
		c.fails(t, errDisk)
		_, err = s.Observe(ctx, "y", nil)
		require.ErrorIs(t, err, errDisk)
		s.next("Leader").shows(State{Leader: one})
		s.quiet()
		for _, prev := range []*store.Known{nil, {Leader: two}} {
			_, err = s.Observe(ctx, "x", prev)
			require.ErrorIs(t, err, errDisk)
		}
		s.quiet()
	})
}

// TestLeaderFromNothingIsFresh: the leader is read by a request that is sent after the call, although another is under
// way.
func TestLeaderFromNothingIsFresh(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		first := s.observe(nil)
		read := s.next("Leader")
		second := s.observe(nil)
		read.shows(State{Leader: one})
		s.tellsOf(first, one)
		require.False(t, second.returned())
		s.next("Leader").shows(State{Leader: two})
		s.tellsOf(second, two)
		require.True(t, read.isStopped())
		s.quiet()
	})
}

// TestLeaderOfAWatchThatIsOver is read again. What the old watch tells then is ignored, and the old watch is taken back
// once the new one has been set.
func TestLeaderOfAWatchThatIsOver(t *testing.T) {
	for name, news := range map[string]News{"over": {Over: true}, "look again": {}, "state and over": {Over: true, State: &State{Leader: one}}} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, old *request) {
				c := s.after(one, time.Now())
				old.tells(news)
				old.tells(News{State: &State{Leader: three}})
				s.knows(one)
				again := s.next("Leader")
				require.False(t, old.isStopped())
				again.tells(News{State: &State{Leader: two}})
				old.tells(News{State: &State{Leader: one}})
				s.knows(two)
				again.answer(answer{})
				s.tellsOf(c, two)
				require.True(t, old.isStopped())
				old.tells(News{Over: true})
				s.quiet()
			})
		})
	}
}

// TestLeaderOfAWatchThatIsOverBeforeItHasBeenSet is read again.
func TestLeaderOfAWatchThatIsOverBeforeItHasBeenSet(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.observe(nil)
		read := s.next("Leader")
		read.tells(News{State: &State{Leader: one}, Over: true})
		read.answer(answer{})
		s.tellsOf(c, one)
		s.next("Leader").shows(State{Leader: two})
		require.True(t, read.isStopped())
		s.quiet()
	})
}

// TestLeaderIsReadAgainAfterAFailure. A caller that gives up is told why there is no answer, until there is one.
func TestLeaderIsReadAgainAfterAFailure(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		impatient := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := s.Observe(ctx, "x", nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return err
		}
		require.NotErrorIs(t, impatient(), errUnsent, "nothing is known yet")
		c := s.observe(nil)
		s.next("Leader").fail(errUnsent)
		s.quiet()
		require.ErrorIs(t, impatient(), errUnsent)
		time.Sleep(40 * time.Millisecond)
		s.next("Leader").shows(State{Leader: one})
		c.succeeds(t)
		require.NotErrorIs(t, impatient(), errUnsent)
	})
}

// TestLeaderThatIsRefused is reported to all who wait. The next caller asks again.
func TestLeaderThatIsRefused(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		a, b := s.observe(nil), s.after(one, time.Now())
		s.next("Leader").fail(store.ErrDenied)
		a.fails(t, store.ErrDenied)
		require.True(t, b.returned())
		require.EqualError(t, b.err, `read the leader in election "x" on test://: permission denied`)
		s.quiet()
		time.Sleep(pace)
		s.next("Leader").fail(store.ErrDenied)
		a = s.observe(nil)
		s.next("Leader").shows(State{Leader: one})
		a.succeeds(t)
		b = s.observe(&a.value)
		s.quiet()
		require.False(t, b.returned())
	})
}

// TestObservationIsDroppedWhenItIsNotUsed for a TTL.
func TestObservationIsDroppedWhenItIsNotUsed(t *testing.T) {
	playWatching(t, func(t *testing.T, s *scene, watch *request) {
		c := s.follow()
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
		c.succeeds(t)
		for range 4 {
			require.NotNil(t, s.observation())
			require.False(t, watch.isStopped())
			time.Sleep(pace)
			if s.count("Leader") > 0 {
				watch = s.next("Leader").shows(State{Leader: two})
			}
		}
		require.Nil(t, s.observation())
		require.True(t, watch.isStopped())
		watch.tells(News{Over: true}) // its reports are ignored
		s.quiet()
		s.observe(nil)
		s.next("Leader")
	})
}

// TestReplacedWatchIsNotListenedTo: once the watch after it has told a state, what it tells is ignored, even its end.
func TestReplacedWatchIsNotListenedTo(t *testing.T) {
	for name, late := range map[string]News{
		"another leader": {State: &State{Leader: three}}, "no leader": {State: &State{}}, "over": {Over: true}, "look again": {},
	} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, old *request) {
				c := s.observe(nil)
				read := s.next("Leader").shows(State{Leader: two})
				c.succeeds(t)
				require.True(t, old.isStopped())
				old.tells(late) // it was on its way
				s.knows(two)
				s.quiet()
				read.tells(News{State: &State{Leader: one}})
				s.knows(one) // the new one is listened to
			})
		})
	}
}

// TestReadThatWaitsForAPlace has not begun: callers that come meanwhile need no other.
func TestReadThatWaitsForAPlace(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range places {
			go func() { _, _ = s.Observe(context.Background(), strconv.Itoa(i), nil) }()
		}
		synctest.Wait()
		first, second := s.observe(nil), s.observe(nil)
		s.next("Leader").shows(State{})
		last := s.all()[places-1]
		require.Equal(t, "x", last.election)
		last.shows(State{Leader: one})
		s.tellsOf(first, one)
		s.tellsOf(second, one)
		require.Equal(t, places-1, s.count("Leader"))
	})
}

// TestCloseEndsObserve at once with ErrClosed, even if a watch reports what Close does, or the answer is known.
func TestCloseEndsObserve(t *testing.T) {
	for name, news := range map[string][]News{"nothing is told": nil, "another leader is told": {{State: &State{Leader: two}}}} {
		t.Run(name, func(t *testing.T) {
			playWatching(t, func(t *testing.T, s *scene, watch *request) {
				a, b := s.after(one, time.Now()), s.after(one, time.Now())
				s.leading(1)
				closing := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
				for _, n := range news {
					watch.tells(n)
				}
				a.fails(t, store.ErrClosed)
				b.fails(t, store.ErrClosed)
				s.find("End").answer(answer{})
				require.True(t, closing.returned())
			})
		})
	}
	playWatching(t, func(t *testing.T, s *scene, _ *request) {
		o := s.observation()
		callers := func() int {
			s.Engine.mu.Lock()
			defer s.Engine.mu.Unlock()
			return o.callers
		}
		result := make(chan error, 1)
		o.mu.Lock()
		go func() { _, err := s.Observe(context.Background(), "x", &store.Known{}); result <- err }()
		for callers() == 0 {
			runtime.Gosched()
		}
		s.life.Close()
		o.mu.Unlock()
		require.ErrorIs(t, <-result, store.ErrClosed)
	})
}

// TestLowerRevisionOfANewWatch is shown to followers: the service has lost transactions, as its driver has proved before
// it told that. What the watch before still tells is not.
func TestLowerRevisionOfANewWatch(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		began := time.Now()
		c := s.observe(nil)
		before := s.next("Leader").shows(State{Leader: two})
		c.succeeds(t)
		c = s.observe(&c.value)
		before.tells(News{Over: true})
		time.Sleep(time.Second)
		s.next("Leader").shows(State{Leader: one})
		c.succeeds(t)
		require.Equal(t, store.Known{Leader: one, AsOf: began}, c.value)
		before.tells(News{State: &State{Leader: two}, AsOf: began.Add(2 * time.Second)})
		require.Equal(t, c.value, s.observation().now())
	})
}

// TestObserveNeverGoesBack: an observation that was dropped and made again knows an earlier time at first. A caller who knows
// a later one is not told that, whoever leads.
func TestObserveNeverGoesBack(t *testing.T) {
	for _, leader := range []store.Leader{one, two} {
		playWatching(t, func(t *testing.T, s *scene, watch *request) {
			if leader != one {
				watch.tells(News{State: &State{Leader: leader}})
			}
			time.Sleep(2 * time.Second)
			c := s.after(one, time.Now().Add(-time.Second)) // as the observation before has told
			require.False(t, c.returned())
			s.next("Leader").shows(State{Leader: leader})
			c.succeeds(t)
			require.Equal(t, store.Known{Leader: leader, AsOf: time.Now()}, c.value)
			s.quiet()
		})
	}
}

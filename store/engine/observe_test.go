package engine

import (
	"context"
	"errors"
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

// TestLeaderIsToldToAll who wait, by one watch.
func TestLeaderIsToldToAll(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
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
			play(t, Settings{}, func(t *testing.T, s *scene) {
				old := s.watched()
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
		require.True(t, c.returned())
		require.NoError(t, c.err)
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
		require.True(t, a.returned())
		require.NoError(t, a.err)
		b = s.leader(&one)
		s.quiet()
		require.False(t, b.returned())
	})
}

// TestObservationIsDroppedWhenItIsNotUsed for a TTL.
func TestObservationIsDroppedWhenItIsNotUsed(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.watched()
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
		require.True(t, c.returned())
		require.ErrorIs(t, c.err, errDisk)
	})
}

package engine

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
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

// polled begins to poll election "x", and returns the watch, which has told that one leads.
func (s *scene) polled() *request {
	s.Helper()
	c := s.leader(nil)
	r := s.next("Leader").shows(State{Leader: one, AsOf: time.Now()})
	require.True(s, c.returned())
	require.Equal(s, one, c.value)
	return r
}

// TestLeaderIsToldToAll who wait, by one watch.
func TestLeaderIsToldToAll(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.polled()
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

// TestObserveWithAnEndedContext returns its cause, sends nothing, and does not tell of what is known.
func TestObserveWithAnEndedContext(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		cause := errors.New("the caller's")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := s.Observe(ctx, "x", nil)
		require.ErrorIs(t, err, cause)
		s.quiet()
		s.polled()
		for _, prev := range []*store.Known{nil, {Leader: two}} {
			_, err = s.Observe(ctx, "x", prev)
			require.ErrorIs(t, err, cause)
		}
		s.quiet()
	})
}

// TestLeaderFromNothingIsFresh: it is read by a request that is sent after the call, though another is under way.
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

// TestLeaderOfAWatchThatIsOver is read anew, and the old watch is not listened to once the new one has told.
func TestLeaderOfAWatchThatIsOver(t *testing.T) {
	for name, news := range map[string]News{"over": {Over: true}, "look again": {}, "state and over": {Over: true, State: &State{Leader: one}}} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				old := s.polled()
				c := s.leader(&one)
				old.tells(news)
				again := s.next("Leader")
				require.False(t, old.isStopped())
				again.tells(News{State: &State{Leader: two}})
				old.tells(News{State: &State{Leader: one}})
				require.Equal(t, two, s.poll().now().Leader)
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

func (s *scene) poll() *poll {
	s.Engine.mu.Lock()
	defer s.Engine.mu.Unlock()
	return s.polls["x"]
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

// TestLeaderSaysWhyThereIsNoAnswer to a caller who does not wait any longer, until there is one.
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

// TestLeaderThatIsRefused is told to all who wait, and the next caller asks again.
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

// TestLeaderIsNotOlderThanTheOwnAcknowledgement, whose caller knows of that before the watch tells.
func TestLeaderIsNotOlderThanTheOwnAcknowledgement(t *testing.T) {
	acknowledged := store.Leader{Value: "value", Revision: 9}
	acknowledge := func(t *testing.T, s *scene) (watch *request) {
		b, _ := s.leading(1)
		watch = s.polled()
		c := s.acknowledge(b)
		s.next("Acknowledge").answer(answer{revision: 9})
		require.True(t, c.returned())
		return watch
	}
	t.Run("read", func(t *testing.T) {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			acknowledge(t, s)
			c := s.leader(&acknowledged)
			require.False(t, c.returned())
			s.next("Leader").shows(State{Leader: acknowledged})
			require.False(t, c.returned())
			s.quiet()
		})
	})
	t.Run("told", func(t *testing.T) {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			watch := acknowledge(t, s)
			known := s.poll().now()
			c := s.observe(&known)
			s.quiet()
			watch.tells(News{State: &State{Leader: acknowledged}})
			require.True(t, c.returned())
			require.Equal(t, acknowledged, c.value.Leader)
			s.quiet()
		})
	})
	t.Run("replaced meanwhile", func(t *testing.T) {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			acknowledge(t, s)
			c := s.leader(&acknowledged)
			s.next("Leader").shows(State{})
			require.True(t, c.returned())
			require.Zero(t, c.value)
		})
	})
}

// TestPollIsDroppedWhenItIsNotUsed for a TTL.
func TestPollIsDroppedWhenItIsNotUsed(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.polled()
		c := s.leader(&one)
		for range 8 { // it is used
			time.Sleep(pace)
			watch.tells(News{AsOf: time.Now()})
			if s.count("Leader") > 0 { // its turn to be looked at
				again := s.next("Leader").shows(State{Leader: one, AsOf: time.Now()})
				require.True(t, watch.isStopped())
				watch = again
			}
		}
		watch.tells(News{State: &State{Leader: two, AsOf: time.Now()}})
		require.True(t, c.returned())
		for range 4 {
			require.NotNil(t, s.poll())
			require.False(t, watch.isStopped())
			time.Sleep(pace)
			synctest.Wait()
			if s.count("Leader") > 0 {
				watch = s.next("Leader").shows(State{Leader: two, AsOf: time.Now()})
			}
		}
		require.Nil(t, s.poll())
		require.True(t, watch.isStopped())
		watch.tells(News{Over: true}) // it is not listened to
		s.quiet()
		s.leader(nil)
		s.next("Leader")
	})
}

// TestObserve tells of another leader and of a later time.
func TestObserve(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		began := time.Now()
		c := s.observe(nil)
		watch := s.next("Leader").shows(State{Leader: one, AsOf: began})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: began}, c.value)
		c = s.observe(&c.value)
		require.False(t, c.returned())
		watch.tells(News{State: &State{Leader: one, AsOf: began}})
		watch.tells(News{AsOf: began.Add(-time.Second)})
		require.False(t, c.returned())
		require.Equal(t, began, s.poll().now().AsOf)
		watch.tells(News{AsOf: began.Add(time.Second)})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: one, AsOf: began.Add(time.Second)}, c.value)
		c = s.observe(&c.value)
		watch.tells(News{State: &State{Leader: two}})
		require.True(t, c.returned())
		require.Equal(t, store.Known{Leader: two, AsOf: began.Add(time.Second)}, c.value, "no later: it may lead since then")
	})
}

// TestConfirmationOfAnotherWatch says nothing about what was told before: of one that has not told a state yet, and of
// one that is over.
func TestConfirmationOfAnotherWatch(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		watch := s.polled()
		known := s.poll().now()
		watch.tells(News{Over: true})
		next := s.next("Leader")
		watch.tells(News{AsOf: known.AsOf.Add(1)})
		next.tells(News{AsOf: known.AsOf.Add(2)})
		require.Equal(t, known, s.poll().now())
		next.shows(State{Leader: one})
		next.tells(News{AsOf: known.AsOf.Add(3)})
		require.Equal(t, known.AsOf.Add(3), s.poll().now().AsOf)
	})
}

// TestLeaderIsReadWhenConfirmationsStayAway, so that what is known is never older than TTL/2 and two round trips.
func TestLeaderIsReadWhenConfirmationsStayAway(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range 5 { // whose turn it is
			s.leading(uint64(i + 1))
		}
		watch := s.polled()
		known := s.poll().now().AsOf
		s.leader(&one)
		time.Sleep(pace)
		watch.tells(News{AsOf: known.Add(pace * 9 / 10)})
		time.Sleep(pace)
		require.Zero(t, s.count("Leader"), "the confirmation is not overdue")
		time.Sleep(pace)
		require.Equal(t, 1, s.count("Leader"))
		read := s.find("Leader")
		time.Sleep(pace * 3 / 2)
		read.shows(State{Leader: one, AsOf: time.Now()})
		require.Zero(t, s.count("Leader"), "one read at a time")
		require.LessOrEqual(t, time.Since(s.poll().now().AsOf), ttl/2)
	})
}

// TestEachOfManyPollsIsFresh: none of them is older than TTL/2 and the time that an answer takes, whenever it began, and
// though nothing is ever confirmed.
func TestEachOfManyPollsIsFresh(t *testing.T) {
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
						r.shows(State{Leader: one, AsOf: asked[r]})
					}
				}
				for _, election := range elections {
					if asOf := s.polls[election].now().AsOf; !asOf.IsZero() {
						require.LessOrEqual(t, time.Since(asOf), ttl/2+2*trip)
					}
				}
			}
		}
	})
}

// TestLeaderIsReadAgainAfterASlowAnswer at once: what an answer says is as old as its request.
func TestLeaderIsReadAgainAfterASlowAnswer(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for _, slow := range []bool{false, true} {
			s.leader(nil)
			read, asked := s.next("Leader"), time.Now()
			time.Sleep(pace * 3 / 4)
			if slow {
				time.Sleep(pace / 2)
			}
			read.shows(State{Leader: one, AsOf: asked})
			if !slow {
				require.Zero(t, s.count("Leader"))
				continue
			}
			s.next("Leader").shows(State{Leader: one, AsOf: time.Now()})
			require.Zero(t, s.count("Leader"))
			require.Equal(t, time.Now(), s.poll().now().AsOf)
			s.leader(&one)
			require.Zero(t, s.count("Leader"), "once")
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

package engine

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// requests returns how many requests there were.
func (s *scene) requests() int {
	synctest.Wait()
	s.scripted.mu.Lock()
	defer s.scripted.mu.Unlock()
	return s.asked
}

// refuse answers all requests with an error, as soon as they are sent, for as long as that. It returns how many there were
// in the busiest second after the first.
func (s *scene) refuse(d time.Duration, err error) (most int) {
	for second := range int(d / time.Second) {
		before := s.requests()
		for range 100 {
			for _, r := range s.all() {
				r.fail(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if second > 0 {
			most = max(most, s.requests()-before)
		}
	}
	return most
}

// TestOutageOfManyElections sends few requests, and makes one line at its beginning and one at its end. The first answer
// lets all go on at once.
func TestOutageOfManyElections(t *testing.T) {
	var log lines
	play(t, log.settings(), func(t *testing.T, s *scene) {
		var watches []*request
		for i := range 50 {
			s.cast(uint64(i+1), Place{})
			watches = append(watches, s.next("Entry").shows(State{Token: uint64(i + 1), Session: s.scripted.session.ID()}))
			o := start(func() (store.Known, error) { return s.Observe(t.Context(), "y"+strconv.Itoa(i), nil) })
			watches = append(watches, s.next("Leader").shows(State{Leader: one}))
			require.True(t, o.returned())
			go func() { _, _ = s.Observe(context.Background(), "y"+strconv.Itoa(i), &o.value) }()
		}
		s.confirms.Store(true)
		s.firsts.Store(true)
		for _, w := range watches {
			w.tell(News{Over: true})
		}
		ballots := start(func() ([]store.Standing, error) { return s.Engine.Ballots(context.Background(), "z") })
		require.LessOrEqual(t, s.refuse(5*time.Second, errLater), 5, "while the session lasts")
		s.scripted.session.ends(errLater)
		cast := s.casting(context.Background(), "x")
		require.LessOrEqual(t, s.refuse(time.Minute, errLater), 5)
		require.Equal(t, `level=WARN msg="the service does not answer" store=test:// cause="no answer"`+"\n", log.String())

		for range 25 { // at the latest
			time.Sleep(10 * time.Millisecond)
			if len(s.all()) > 0 {
				break
			}
		}
		require.NotEmpty(t, s.all(), "a turn comes")
		s.all()[0].answer(answer{})
		time.Sleep(400 * time.Millisecond) // the longest pause of a call
		require.NotZero(t, s.count("Ballots"))
		s.find("Ballots").answer(answer{})
		require.True(t, ballots.returned())
		require.GreaterOrEqual(t, s.count("Leader"), places-2, "all places go on")
		if !cast.returned() {
			if s.count("Open") > 0 {
				s.find("Open").answer(answer{})
			}
			s.find("Enter").answer(entered(100, Place{}))
		}
		require.True(t, cast.returned())
		require.Equal(t, 2, log.count(), log.String())
		require.Contains(t, log.String(), `level=INFO msg="the service answers again" store=test:// after=1m`)
	})
}

// inOutage plays a scene that begins with an outage: a ballot stands, and its watch can't be set again. The next turn has
// been taken by that request, which waits for its answer.
func inOutage(t *testing.T, log *lines, test func(t *testing.T, s *scene, b *ballot, entry *request)) {
	play(t, log.settings(), func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		s.firsts.Store(true)
		b, own := s.leading(1)
		for s.count("Confirm") > 0 {
			s.find("Confirm").answer(answer{})
		}
		own.tells(News{Over: true})
		s.next("Entry").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		test(t, s, b, s.next("Entry"))
	})
}

// TestFirstAnswerLetsAllThrough: those that wait are sent at once.
func TestFirstAnswerLetsAllThrough(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, entry *request) {
		for range 10 {
			go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
		}
		require.Zero(t, s.count("Ballots"), "they wait for their turn")
		entry.shows(State{Token: 1})
		require.Equal(t, 10, s.count("Ballots"))
	})
}

// TestTurns come more and more seldom, until there are four a second.
func TestTurns(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, _ *request) {
		for range 20 {
			go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
		}
		for i, pause := range []time.Duration{50, 100, 200, 250, 250, 250} {
			time.Sleep(pause*time.Millisecond - time.Nanosecond)
			require.Equal(t, i, s.count("Ballots"))
			time.Sleep(time.Nanosecond)
			require.Equal(t, i+1, s.count("Ballots"), "none has been answered")
		}
	})
}

// TestOpenHasEveryOtherTurn: it does not wait behind all requests that waited before.
func TestOpenHasEveryOtherTurn(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, _ *request) {
		for range 20 {
			go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
		}
		time.Sleep(time.Second)
		asked := s.count("Ballots")
		s.scripted.session.ends(errLater)
		s.casting(context.Background(), "x")
		time.Sleep(mostPause)
		require.Equal(t, 1, s.count("Open"))
		require.Equal(t, asked, s.count("Ballots"))
		s.find("Open").fail(errLater)
		time.Sleep(mostPause)
		require.Equal(t, asked+1, s.count("Ballots"))
		time.Sleep(mostPause)
		require.Equal(t, 1, s.count("Open"))
	})
}

// TestRequestThatWaitsForItsTurn ends with its context, and says why it had to wait. It was not sent.
func TestRequestThatWaitsForItsTurn(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, b *ballot, _ *request) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		before := s.requests()
		observed := start(func() (store.Known, error) { return s.Observe(ctx, "y", nil) })
		listed := start(func() ([]store.Standing, error) { return s.Engine.Ballots(ctx, "x") })
		waiting := s.casting(ctx, "x")
		acknowledged := start(func() (store.Leader, error) { return b.Acknowledge(ctx, "value") })
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, before, s.requests())
		for call, err := range map[string]error{
			"Observe":     waitFor(t, observed),
			"Ballots":     waitFor(t, listed),
			"Cast":        waitFor(t, waiting),
			"Acknowledge": waitFor(t, acknowledged),
		} {
			require.ErrorIs(t, err, context.DeadlineExceeded, call)
			require.ErrorIs(t, err, store.ErrUnavailable, call)
			require.NotErrorIs(t, err, store.ErrUnknownOutcome, call)
			require.ErrorContains(t, err, "service unavailable: no answer", call)
		}
	})
}

// TestCastThatWaits for a session, or for others that wait, ends with its context, and says why it had to wait.
func TestCastThatWaits(t *testing.T) {
	for _, session := range []bool{true, false} {
		inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, _ *request) {
			if !session {
				s.scripted.session.ends(errUnsent)
			}
			for range Slots {
				s.casting(context.Background(), "x")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			c := s.casting(ctx, "x")
			time.Sleep(10 * time.Millisecond)
			err := waitFor(t, c)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnknownOutcome)
		})
	}
}

// TestTurnOfARequestThatHasGone is not lost.
func TestTurnOfARequestThatHasGone(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, _ *request) {
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			go func() { _, _ = s.Engine.Ballots(ctx, "x") }()
		}
		require.Zero(t, s.count("Ballots"))
		cancel()
		synctest.Wait()
		go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
		time.Sleep(leastPause)
		require.Equal(t, 1, s.count("Ballots"))
	})
}

// TestSessionEndsInAnOutage: what waits to be sent for its entries returns soon, and casts go on in the next session.
func TestSessionEndsInAnOutage(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, b *ballot, _ *request) {
		for range 100 { // turns for half a minute
			go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
		}
		synctest.Wait()
		withdrawn := s.withdraw(context.Background(), b)
		cast := s.casting(context.Background(), "y")
		require.Zero(t, s.count("Remove")+s.count("Enter"))
		s.scripted.session.ends(errUnsent)
		time.Sleep(time.Second)
		require.Zero(t, s.count("Remove")+s.count("Enter"))
		withdrawn.fails(t, errUnsent)
		s.find("End").answer(answer{})
		time.Sleep(time.Second)
		s.find("Open").answer(answer{})
		s.find("Enter").answer(entered(2, Place{}))
		require.True(t, cast.returned())
	})
}

// waitFor returns the error of a call, which has returned.
func waitFor[T any](t *testing.T, c *call[T]) error {
	t.Helper()
	require.True(t, c.returned())
	return c.err
}

// TestShortOutageIsNotLogged: a reply was lost.
func TestShortOutageIsNotLogged(t *testing.T) {
	for lasts, want := range map[time.Duration]int{time.Second - time.Nanosecond: 0, time.Second + time.Nanosecond: 2} {
		var log lines
		inOutage(t, &log, func(t *testing.T, s *scene, _ *ballot, entry *request) {
			time.Sleep(lasts - 50*time.Millisecond)
			entry.shows(State{Token: 1})
			time.Sleep(2 * time.Second)
			require.Equal(t, want, log.count(), log.String())
		})
	}
}

// TestOutageAfterClose is not logged any more.
func TestOutageAfterClose(t *testing.T) {
	var log lines
	inOutage(t, &log, func(t *testing.T, s *scene, _ *ballot, _ *request) {
		closed := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.find("End").fail(errLater)
		closed.succeeds(t)
		time.Sleep(2 * time.Second)
		require.Zero(t, log.count(), log.String())
	})
}

// TestEachOutageIsLogged, if it is long enough by itself.
func TestEachOutageIsLogged(t *testing.T) {
	var log lines
	inOutage(t, &log, func(t *testing.T, s *scene, _ *ballot, entry *request) {
		for i, lasts := range []time.Duration{2 * time.Second, 700 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second} {
			if i > 0 {
				entry.tells(News{Over: true})
				s.find("Entry").fail(errLater)
				time.Sleep(300 * time.Millisecond)
				entry = s.find("Entry")
			}
			time.Sleep(lasts - 300*time.Millisecond)
			entry.shows(State{Token: 1})
		}
		require.Equal(t, 4, log.count(), log.String())
	})
}

// TestNoOutage: these errors say that the service works, or nothing about it.
func TestNoOutage(t *testing.T) {
	for name, err := range map[string]error{
		"answer": Answered(errLater), "denial": store.ErrDenied, "final": errDisk, "gone": ErrGone, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
				s.next("Ballots").fail(err)
				require.NoError(t, s.Engine.gate.err())
			})
		})
	}
	t.Run("context", func(t *testing.T) {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = s.Engine.Ballots(ctx, "x") }()
			s.next("Ballots")
			cancel()
			synctest.Wait()
			require.NoError(t, s.Engine.gate.err())
		})
	})
}

// TestSlowRequestIsNoOutage: others that were sent after it have been answered.
func TestSlowRequestIsNoOutage(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		go func() { _, _ = s.Engine.Ballots(context.Background(), "x") }()
		slow := s.next("Ballots")
		time.Sleep(time.Millisecond)
		s.cast(1, Place{})
		slow.fail(errLater)
		require.NoError(t, s.Engine.gate.err())
		time.Sleep(time.Second)
		s.find("Ballots").fail(errLater)
		require.Error(t, s.Engine.gate.err())
	})
}

// TestWhatEndsAnOutage: an answer of any kind, and a renewal of the session.
func TestWhatEndsAnOutage(t *testing.T) {
	for name, ends := range map[string]func(s *scene, entry *request){
		"answer":  func(_ *scene, entry *request) { entry.shows(State{Token: 1}) },
		"denial":  func(_ *scene, entry *request) { entry.fail(store.ErrDenied) },
		"marked":  func(_ *scene, entry *request) { entry.fail(Answered(errUnsent)) },
		"renewal": func(s *scene, _ *request) { s.scripted.session.renew(Proof{Sent: store.Now(), Valid: ttl}) },
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, entry *request) {
				require.Error(t, s.Engine.gate.err())
				ends(s, entry)
				require.NoError(t, s.Engine.gate.err())
			})
		})
	}
	for name, err := range map[string]error{"over": ErrOver, "failure": errUnsent, "local": errDisk} {
		t.Run(name+" does not", func(t *testing.T) {
			inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, entry *request) {
				entry.fail(err)
				require.Error(t, s.Engine.gate.err())
			})
		})
	}
}

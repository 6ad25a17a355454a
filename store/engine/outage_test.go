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

// list begins so many calls.
func (s *scene) list(ctx context.Context, calls int) {
	for range calls {
		go func() { _, _ = s.Engine.Ballots(ctx, "x") }()
	}
	synctest.Wait()
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
		require.NotEmpty(t, s.all(), "a probe")
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

// inOutage plays a scene that begins with an outage: a ballot stands, and its watch can't be set again. That request was
// sent again as the first probe, and waits for its answer.
func inOutage(t *testing.T, log *lines, test func(t *testing.T, s *scene, b *ballot, entry *request)) {
	play(t, log.settings(), func(t *testing.T, s *scene) {
		s.confirms.Store(true)
		s.firsts.Store(true)
		b, own := s.leading(1)
		for s.count("Confirm") > 0 {
			s.find("Confirm").answer(answer{})
		}
		test(t, s, b, s.loses(own))
	})
}

// loses makes an outage begin, and returns the first probe.
func (s *scene) loses(own *request) *request {
	own.tells(News{Over: true})
	s.find("Entry").fail(errLater)
	time.Sleep(50 * time.Millisecond)
	return s.find("Entry")
}

// TestProbes come more and more seldom, until there are four a second. One that has gone is not waited for. The first answer
// lets all through at once. The next outage begins with the shortest pause again.
func TestProbes(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, entry *request) {
		gone, cancel := context.WithCancel(t.Context())
		s.list(gone, 10)
		cancel()
		ctx, cancel := context.WithCancel(t.Context())
		s.list(ctx, 20)
		for i, pause := range []time.Duration{50, 100, 200, 250, 250, 250} {
			time.Sleep(pause*time.Millisecond - time.Nanosecond)
			require.Equal(t, i, s.count("Ballots"))
			time.Sleep(time.Nanosecond)
			require.Equal(t, i+1, s.count("Ballots"), "none has been answered")
		}
		entry.shows(State{Token: 1})
		require.Equal(t, 20, s.count("Ballots"))
		cancel()
		synctest.Wait()
		require.NoError(t, s.Engine.gate.err())

		s.loses(entry)
		s.list(t.Context(), 20)
		time.Sleep(leastPause - time.Nanosecond)
		require.Zero(t, s.count("Ballots"))
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, s.count("Ballots"))
	})
}

// TestOpenIsEveryOtherProbe: it does not wait behind all requests that waited before.
func TestOpenIsEveryOtherProbe(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, _ *request) {
		s.list(context.Background(), 20)
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

// TestRequestThatWaitsInAnOutage ends with its context, and says why it had to wait. It was not sent.
func TestRequestThatWaitsInAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *scene)
		call   func(ctx context.Context, s *scene, b *ballot) error
	}{
		"Observe": {nil, func(ctx context.Context, s *scene, _ *ballot) error { _, err := s.Observe(ctx, "y", nil); return err }},
		"Ballots": {nil, func(ctx context.Context, s *scene, _ *ballot) error { _, err := s.Engine.Ballots(ctx, "x"); return err }},
		"Cast":    {nil, func(ctx context.Context, s *scene, _ *ballot) error { _, err := s.Cast(ctx, "x", ""); return err }},
		"Cast without a session": {
			func(s *scene) { s.scripted.session.ends(errUnsent) },
			func(ctx context.Context, s *scene, _ *ballot) error { _, err := s.Cast(ctx, "x", ""); return err },
		},
		"Cast without a slot": {
			func(s *scene) {
				for range Slots {
					s.casting(context.Background(), "x")
				}
			},
			func(ctx context.Context, s *scene, _ *ballot) error { _, err := s.Cast(ctx, "x", ""); return err },
		},
		"Acknowledge": {nil, func(ctx context.Context, _ *scene, b *ballot) error { _, err := b.Acknowledge(ctx, ""); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, &lines{}, func(t *testing.T, s *scene, b *ballot, _ *request) {
				if c.before != nil {
					c.before(s)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				before := s.requests()
				err := c.call(ctx, s, b)
				require.Equal(t, before, s.requests())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.NotErrorIs(t, err, store.ErrUnknownOutcome)
				require.ErrorContains(t, err, "service unavailable: no answer")
			})
		})
	}
}

// TestSessionEndsInAnOutage: what waits to be sent for its entries returns soon, and casts go on in the next session.
func TestSessionEndsInAnOutage(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.list(context.Background(), 100) // probes for half a minute
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

// TestOutageIsLogged if it lasts for a second: a lost reply is no news. Each counts from its own beginning, and after Close
// nothing is logged.
func TestOutageIsLogged(t *testing.T) {
	for lasts, want := range map[time.Duration]int{time.Second - time.Nanosecond: 0, time.Second + time.Nanosecond: 2} {
		var log lines
		inOutage(t, &log, func(t *testing.T, s *scene, _ *ballot, entry *request) {
			time.Sleep(lasts - 50*time.Millisecond)
			entry.shows(State{Token: 1})
			time.Sleep(2 * time.Second)
			require.Equal(t, want, log.count(), log.String())
		})
	}
	var log lines
	inOutage(t, &log, func(t *testing.T, s *scene, _ *ballot, entry *request) {
		for i, lasts := range []time.Duration{2 * time.Second, 700 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second} {
			if i > 0 {
				entry = s.loses(entry)
			}
			time.Sleep(lasts - 50*time.Millisecond)
			entry.shows(State{Token: 1})
		}
		require.Equal(t, 4, log.count(), log.String())
		s.loses(entry)
		closed := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.find("End").fail(errLater)
		closed.succeeds(t)
		time.Sleep(2 * time.Second)
		require.Equal(t, 4, log.count(), log.String())
	})
}

// TestNoOutage: these errors say that the service works, or nothing about it.
func TestNoOutage(t *testing.T) {
	require.NoError(t, Answered(nil))
	for name, err := range map[string]error{
		"answer": Answered(errLater), "denial": store.ErrDenied, "final": errDisk, "gone": ErrGone, "none": nil, "context": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.list(ctx, 1)
				r := s.next("Ballots")
				if name == "context" {
					cancel()
					synctest.Wait()
				} else {
					r.fail(err)
				}
				require.NoError(t, s.Engine.gate.err())
			})
		})
	}
}

// TestSlowRequestIsNoOutage: others that were sent after it have been answered.
func TestSlowRequestIsNoOutage(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.list(context.Background(), 1)
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

// TestWhatEndsAnOutage: an answer of any kind, and a renewal of the session. Other errors do not.
func TestWhatEndsAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(s *scene, entry *request)
		ends    bool
	}{
		"answer":  {func(_ *scene, entry *request) { entry.shows(State{Token: 1}) }, true},
		"denial":  {func(_ *scene, entry *request) { entry.fail(store.ErrDenied) }, true},
		"marked":  {func(_ *scene, entry *request) { entry.fail(Answered(errUnsent)) }, true},
		"renewal": {func(s *scene, _ *request) { s.scripted.session.renew(Proof{Sent: store.Now(), Valid: ttl}) }, true},
		"over":    {func(_ *scene, entry *request) { entry.fail(ErrOver) }, false},
		"failure": {func(_ *scene, entry *request) { entry.fail(errUnsent) }, false},
		"local":   {func(_ *scene, entry *request) { entry.fail(errDisk) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, entry *request) {
				require.Error(t, s.Engine.gate.err())
				c.happens(s, entry)
				require.Equal(t, c.ends, s.Engine.gate.err() == nil)
			})
		})
	}
}

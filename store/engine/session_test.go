package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestSessionIsOpenedOnceForAllWhoWait(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.quiet() // no session is wanted
		a, b := s.casting(t.Context(), "x"), s.casting(t.Context(), "y")
		s.next("Open").answer(answer{})
		require.Equal(t, 2, s.count("Enter"))
		require.Zero(t, s.count("Open"))
		s.next("Enter").answer(entered(1, Place{}))
		s.find("Enter").answer(entered(2, Place{}))
		require.True(t, a.returned() && b.returned())
		require.Same(t, a.value.Lease(), b.value.Lease())
	})
}

// TestOneKeeper, though the session is wanted again before the keeper runs.
func TestOneKeeper(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the keeper's goroutine may run at once
		play(t, Settings{}, func(t *testing.T, s *scene) {
			for range 3 {
				_, err := s.openSession(over)
				require.ErrorIs(t, err, context.Canceled)
			}
			require.Equal(t, 1, s.count("Open"))
		})
	}
}

// TestOpenIsSentAgain, after pauses that grow. A caller who does not wait any longer hears the last reason. No ballot was
// cast, even if the outcome of the request for the session is unknown.
func TestOpenIsSentAgain(t *testing.T) {
	for _, err := range []error{errLater, errUnsent} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			ctx, cancel := context.WithCancel(t.Context())
			impatient, c := s.casting(ctx, "x"), s.casting(t.Context(), "x")
			s.next("Open").fail(err)
			s.quiet()
			cancel()
			impatient.fails(t, context.Canceled)
			require.ErrorIs(t, impatient.err, err, "it says why")
			require.ErrorIs(t, impatient.err, store.ErrUnavailable)
			time.Sleep(50 * time.Millisecond)
			s.next("Open").fail(err)
			time.Sleep(50 * time.Millisecond)
			s.quiet()
			time.Sleep(s.Engine.patience() - 100*time.Millisecond)
			c.fails(t, store.ErrUnavailable)
			require.ErrorContains(t, c.err, "gave up after 20s")
			require.ErrorIs(t, c.err, err)
			s.next("Open").answer(answer{}) // the attempts go on
			s.cast(1, Place{})
		})
	}
}

// TestOpenThatIsRefused is told at once to all who wait, as is a temporary error that waiting does not end. The next caller
// asks again.
func TestOpenThatIsRefused(t *testing.T) {
	for _, err := range []error{store.ErrDenied, fmt.Errorf("open: %w", FailFast(errUnsent))} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			a, b := s.casting(t.Context(), "x"), s.casting(t.Context(), "y")
			s.next("Open").fail(err)
			a.fails(t, err)
			b.fails(t, err)
			s.quiet()
			s.cast(1, Place{})
		})
	}
}

func TestSessionEndedByTheService(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.session.ends(nil)
		require.True(t, b.isLost())
		require.EqualError(t, b.Err(), `stand in election "x" on test://: ballot lost: the session has ended`)
		require.False(t, s.holds(b))
		s.quiet() // there is nothing to end
		require.NoError(t, b.Withdraw(t.Context()), "it is known to be gone")
		next := s.cast(2, Place{})
		require.NotSame(t, b.Lease(), next.Lease())
	})
}

// TestSessionGivenUp is ended before the next one is opened.
func TestSessionGivenUp(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(1, Place{}) // no leader's work depends on it
		s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
		s.session.ends(errDisk)
		require.ErrorIs(t, b.Err(), errDisk)
		require.False(t, s.holds(b))
		end := s.next("End")
		s.casting(t.Context(), "x")
		require.Zero(t, s.count("Open"))
		end.answer(answer{})
		s.next("Open")
	})
}

// TestFinishTellsTheBallotsBeforeTheLeaseEnds, and lets the session go only then.
func TestFinishTellsTheBallotsBeforeTheLeaseEnds(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		told := false
		b.onLoss(func() { told = s.holds(b) && b.session.ctx.Err() == nil && b.session.lease.Remaining() > 0 })
		letGo := b.session.cancel
		b.session.cancel = func(why error) {
			require.False(t, s.holds(b), "the keeper would let the session go")
			letGo(why)
		}
		s.session.ends(nil)
		require.True(t, told)
		require.False(t, s.holds(b))
		require.Error(t, b.session.ctx.Err())
	})
}

// TestFinishAgainWaits until the first has told everybody: else the session could be let go before.
func TestFinishAgainWaits(t *testing.T) {
	e := New(&scripted{}, Settings{TTL: ttl, Pace: pace, VirtualTime: true})
	defer func() { require.NoError(t, e.Close()) }()
	s := e.newSession(&scriptedSession{}, Proof{Sent: store.Now(), Valid: ttl})
	c, err := s.claim("x", &slot{})
	require.NoError(t, err)
	b := newBallot(c, Entry{}, false)
	c.ballot = b
	telling, tell, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.onLoss(func() { close(telling); <-tell })
	go s.ended()
	<-telling
	go func() { defer close(again); s.giveUp(errDisk) }()
	select {
	case <-again:
		t.Error("it has not been told yet")
	case <-time.After(50 * time.Millisecond): // a mistake shows at once
	}
	close(tell)
	<-again
	require.NotErrorIs(t, b.Err(), errDisk, "the first reason stays")
	_, holds := s.lease.Span()
	require.False(t, holds)
}

// onLoss calls a function just before the ballot is lost.
func (b *ballot) onLoss(f func()) {
	end := b.end
	b.end = func(why error) { f(); end(why) }
}

// TestErrOverEndsTheSession at once, whichever call returns it.
func TestErrOverEndsTheSession(t *testing.T) {
	for op, act := range map[string]func(s *scene, b *ballot) *call[struct{}]{
		"Enter":       func(s *scene, _ *ballot) *call[struct{}] { s.casting(s.Context(), "y"); return nil },
		"Acknowledge": func(s *scene, b *ballot) *call[struct{}] { s.acknowledge(b); return nil },
		"Remove":      func(s *scene, b *ballot) *call[struct{}] { return s.withdraw(s.Context(), b) },
		"Entry":       func(s *scene, b *ballot) *call[struct{}] { b.resync(); return nil },
		"Void":        func(s *scene, _ *ballot) *call[struct{}] { s.impatientIn("y"); return nil },
	} {
		t.Run(op, func(t *testing.T) {
			playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
				other := s.cast(2, Place{Nearest: "own1"})
				s.find("Entry").shows(State{Token: 1})
				s.find("Entry").shows(State{Token: 2})
				c := act(s, b)
				s.next(op).fail(ErrOver)
				require.True(t, other.isLost())
				require.False(t, s.holds(b))
				require.True(t, s.session.let)
				require.Zero(t, s.count("End"))
				if c != nil {
					c.succeeds(t) // a Withdraw: the entry has gone with the session
				}
			})
		})
	}
}

func (s *scripted) isClosed() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

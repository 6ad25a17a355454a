package memory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestWithdrawRemovesBallotAndAcknowledgementInOneStep: no reader sees one without the other.
func TestWithdrawRemovesBallotAndAcknowledgementInOneStep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		prev := leader(t, b)
		change := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &prev) })
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, change.returned())
		require.False(t, next.returned())

		require.NoError(t, ballot.Withdraw(t.Context()))
		require.Zero(t, leader(t, b))
		require.Equal(t, []string{"b"}, standing(t, b))
		require.True(t, isLost(ballot))
		require.ErrorIs(t, ballot.Err(), store.ErrLost)
		require.True(t, change.returned())
		require.Zero(t, change.value)
		require.True(t, next.returned())
		require.NoError(t, next.err)
		require.True(t, holds(ballot), "the session stays")

		require.ErrorIs(t, ballot.Wait(t.Context()), store.ErrLost)
		_, err := ballot.Acknowledge(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrLost)
		require.Zero(t, leader(t, b))
	})
}

func TestWithdrawIsIdempotent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		var calls []*result[struct{}]
		for range 5 {
			calls = append(calls, startErr(func() error { return ballot.Withdraw(t.Context()) }))
		}
		for _, c := range calls {
			require.True(t, c.returned())
			require.NoError(t, c.err)
		}
		require.NoError(t, ballot.Withdraw(t.Context()))
		require.Empty(t, standing(t, b))
	})
}

// TestWithdrawTouchesNoOther: later ballots and acknowledgements stay, of other stores and of the same one.
func TestWithdrawTouchesNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := lead(t, a, "first")
		second, third := stand(t, a, "second"), stand(t, b, "third")
		elsewhere, err := a.Cast(t.Context(), "elsewhere", "")
		require.NoError(t, err)
		require.NoError(t, first.Withdraw(t.Context()))
		require.NoError(t, second.Wait(t.Context()))
		public, err := second.Acknowledge(t.Context(), "second")
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, first.Withdraw(t.Context()))
		}
		require.Equal(t, public, leader(t, b))
		require.Equal(t, []string{"second", "third"}, standing(t, b))
		for _, other := range []store.Ballot{second, third, elsewhere} {
			require.False(t, isLost(other))
		}
	})
}

// TestWithdrawRepeatedAfterEnteringAgain: the reply to the resignation is lost and the candidate stands again. Neither
// the removal in the background nor a repeated call removes the newer ballot.
func TestWithdrawRepeatedAfterEnteringAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		old := lead(t, a, "old")
		a.Faults().LoseReplies()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, old.Withdraw(ctx))
		require.Empty(t, standing(t, b), "it was carried out")
		again := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "new") })
		require.False(t, again.returned())
		a.Faults().Heal()
		<-again.done
		require.NoError(t, again.err)
		require.NoError(t, again.value.Wait(t.Context()))
		_, err := again.value.Acknowledge(t.Context(), "new")
		require.NoError(t, err)
		require.NoError(t, old.Withdraw(t.Context()))
		time.Sleep(3 * ttl)
		require.Equal(t, []string{"new"}, standing(t, b))
		require.Equal(t, "new", leader(t, b).Value)
		require.False(t, isLost(again.value))
	})
}

// TestWithdrawWaitsUntilTheBallotIsKnownToBeGone.
func TestWithdrawWaitsUntilTheBallotIsKnownToBeGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		a.Faults().Cut()
		pending := startErr(func() error { return ballot.Withdraw(t.Context()) })
		time.Sleep(ttl / 2)
		require.False(t, pending.returned())
		require.Equal(t, []string{"a"}, standing(t, b))
		a.Faults().Heal()
		require.True(t, pending.returned())
		require.NoError(t, pending.err)
		require.Empty(t, standing(t, b))
	})
}

// TestWithdrawWhoseReplyIsLost "returns nil once they are known to be gone. If ctx ends before that, it returns an
// error". Here ctx goes on, and asking again is safe, so Withdraw returns nil.
func TestWithdrawWhoseReplyIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		a.Faults().LoseReplies()
		pending := startErr(func() error { return ballot.Withdraw(t.Context()) })
		require.False(t, pending.returned())
		require.Empty(t, standing(t, b))
		a.Faults().Heal()
		<-pending.done
		require.NoError(t, pending.err)
	})
}

// TestWithdrawGoesOnInTheBackground if its context ended before the ballot was known to be gone.
func TestWithdrawGoesOnInTheBackground(t *testing.T) {
	for name, fault := range map[string]func(*memory.Faults){
		"cut":               (*memory.Faults).Cut,
		"reply lost":        (*memory.Faults).LoseReplies,
		"request under way": func(f *memory.Faults) { f.Delay(2 * time.Second) },
		"reply under way":   func(f *memory.Faults) { f.Delay(700 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, a, b := pair(t)
				ballot, other := lead(t, a, "a"), stand(t, a, "other")
				fault(a.Faults())
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err := ballot.Withdraw(ctx)
				require.Error(t, err)
				require.True(t, isContextOrUnknown(err), "%v", err)
				require.Equal(t, time.Second, time.Since(began))
				require.True(t, isLost(ballot), "it never leads again, whatever happens")

				time.Sleep(time.Second)
				a.Faults().Heal()
				a.Faults().Delay(0)
				time.Sleep(4 * time.Second) // what is under way still took up to that long
				require.Equal(t, []string{"other"}, standing(t, b))
				require.Zero(t, leader(t, b))
				require.NoError(t, ballot.Withdraw(t.Context()))
				time.Sleep(3 * ttl)
				require.False(t, isLost(other))
			})
		})
	}
}

// isContextOrUnknown reports whether the error is one of those that a call may return when its context ends: that of
// the context, or that the request may have been carried out.
func isContextOrUnknown(err error) bool {
	for _, want := range []error{context.DeadlineExceeded, context.Canceled, store.ErrUnknownOutcome} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

func TestWithdrawWithAnEndedContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, ballot.Withdraw(ctx), context.Canceled)
		require.True(t, isLost(ballot))
		require.Empty(t, standing(t, b), "in the background")
	})
}

func TestWithdrawOfALostBallot(t *testing.T) {
	for name, lose := range map[string]func(*memory.Service, *memory.Store){
		"cleared": func(s *memory.Service, _ *memory.Store) { s.Clear("x") },
		"expired": func(_ *memory.Service, a *memory.Store) { a.Faults().Expire() },
		"expired, and known": func(_ *memory.Service, a *memory.Store) {
			a.Faults().Expire()
			time.Sleep(ttl)
		},
		"closed": func(_ *memory.Service, a *memory.Store) { _ = a.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				service, a, b := pair(t)
				ballot := lead(t, a, "a")
				lose(service, a)
				next := lead(t, b, "b")
				if err := ballot.Withdraw(t.Context()); err != nil {
					require.ErrorIs(t, err, store.ErrClosed)
				}
				require.Equal(t, "b", leader(t, b).Value)
				require.False(t, isLost(next))
			})
		})
	}
}

// TestWithdrawAfterAnOutageLongerThanTheTTL leaves the next session's ballot alone.
func TestWithdrawAfterAnOutageLongerThanTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		a.Faults().Cut()
		pending := startErr(func() error { return ballot.Withdraw(t.Context()) })
		time.Sleep(2 * ttl)
		require.False(t, pending.returned())
		a.Faults().Heal()
		next := stand(t, a, "next")
		require.True(t, pending.returned())
		require.NoError(t, pending.err)
		time.Sleep(2 * ttl)
		require.False(t, isLost(next))
		require.Equal(t, []string{"next"}, standing(t, b))
	})
}

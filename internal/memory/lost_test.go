package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestLost is closed for every way in which a ballot can end, with an error that names the way, and not before.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*memory.Service, *memory.Store, store.Ballot)
		why  string
	}{
		"withdrawn": {
			func(_ *memory.Service, _ *memory.Store, b store.Ballot) { _ = b.Withdraw(context.Background()) },
			"ballot lost: ",
		},
		"removed by an operator": {
			func(s *memory.Service, _ *memory.Store, _ store.Ballot) { s.Clear("x") },
			"it was removed",
		},
		"session ended early": {
			func(_ *memory.Service, a *memory.Store, _ store.Ballot) { a.Faults().Expire() },
			"ballot lost: ",
		},
		"outage longer than the TTL": {
			func(_ *memory.Service, a *memory.Store, _ store.Ballot) {
				a.Faults().Cut()
				time.Sleep(2 * ttl)
				a.Faults().Heal()
			},
			"ballot lost: ",
		},
		"store closed": {
			func(_ *memory.Service, a *memory.Store, _ store.Ballot) { _ = a.Close() },
			"store is closed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				service, a, b := pair(t)
				first, second := lead(t, a, "first"), stand(t, a, "second")
				stand(t, b, "another's")
				for _, ballot := range []store.Ballot{first, second} {
					require.False(t, isLost(ballot))
					require.NoError(t, ballot.Err())
				}
				c.lose(service, a, first)
				require.True(t, isLost(first))
				require.ErrorIs(t, first.Err(), store.ErrLost)
				require.ErrorContains(t, first.Err(), c.why)
				var detail *store.Error
				require.ErrorAs(t, first.Err(), &detail)
				require.Equal(t, "x", detail.Election)
				require.Equal(t, "memory://", detail.Store)
				why := first.Err()
				_ = first.Withdraw(t.Context())
				service.Clear("x")
				a.Faults().Expire()
				require.True(t, isLost(first))
				require.Equal(t, why, first.Err(), "the first reason stays")
			})
		})
	}
}

// TestErrOfAWithdrawnBallotSaysSo: the error does not say that an operator removed the ballot, although the
// notification of the removal might come before the answer.
func TestErrOfAWithdrawnBallotSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		for range 500 {
			ballot := stand(t, a, "a")
			require.NoError(t, ballot.Withdraw(t.Context()))
			require.ErrorContains(t, ballot.Err(), "it was withdrawn")
		}
	})
}

// TestLostIsNotClosedForTheLossOfAnother ballot of the same session.
func TestLostIsNotClosedForTheLossOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, _ := pair(t)
		one, two := stand(t, a, "one"), stand(t, a, "two")
		elsewhere, err := a.Cast(t.Context(), "elsewhere", "")
		require.NoError(t, err)
		require.NoError(t, one.Withdraw(t.Context()))
		require.True(t, isLost(one))
		require.False(t, isLost(two))
		service.Clear("x")
		require.True(t, isLost(two))
		require.False(t, isLost(elsewhere))
		require.True(t, holds(elsewhere))
	})
}

// TestLostMayBeLateTheLeaseIsNot: the line is cut, so the store can't learn that its session has ended.
func TestLostMayBeLateTheLeaseIsNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		span, _ := ballot.Lease().Span()
		a.Faults().Cut()
		require.NoError(t, stand(t, b, "b").Wait(t.Context())) // leads
		require.False(t, isLost(ballot))
		require.False(t, ballot.Lease().Holds(span))
		require.False(t, holds(ballot))
		a.Faults().Heal()
		require.True(t, isLost(ballot), "the renewal under way brings the news")
		require.False(t, holds(ballot))
	})
}

// TestLostWhenARenewalTells: notifications are held back, requests are answered. The store learns of the end from the
// answer to a renewal, "no such session".
func TestLostWhenARenewalTells(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		ballot := lead(t, a, "a")
		synctest.Wait() // it is watched
		a.Faults().Stall()
		a.Faults().Expire()
		require.False(t, isLost(ballot))
		<-ballot.Lease().Last().Changed
		require.False(t, holds(ballot), "the store knows")
		require.True(t, isLost(ballot))
	})
}

// TestLostAfterTheNotificationWasDelayed by as long as the line takes.
func TestLostAfterTheNotificationWasDelayed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, _ := pair(t)
		ballot := lead(t, a, "a")
		synctest.Wait() // it is watched
		a.Faults().Delay(700 * time.Millisecond)
		service.Clear("x")
		began := time.Now()
		require.False(t, isLost(ballot))
		<-ballot.Lost()
		require.Equal(t, 700*time.Millisecond, time.Since(began))
	})
}

package memory_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestAcknowledgeMakesTheValuePublic(t *testing.T) {
	for _, value := range []string{
		"dbhost2:4567", "", "\x00\xff", "a\nb", "日本語 \U0001F680", strings.Repeat("x", store.MaxValue),
	} {
		inBubble(t, func(t *testing.T) {
			_, a, b := pair(t)
			ballot := stand(t, a, "cast with another value")
			require.NoError(t, ballot.Wait(t.Context()))
			require.Zero(t, leader(t, b), "not before")
			public, err := ballot.Acknowledge(t.Context(), value)
			require.NoError(t, err)
			require.Equal(t, value, public.Value)
			require.NotZero(t, public.Revision)
			require.Equal(t, public, leader(t, b))
			require.Equal(t, []string{"cast with another value"}, standing(t, b))
		})
	}
}

// TestAcknowledgeIsRefusedBeforeWait: only a ballot whose Wait has returned may be acknowledged.
func TestAcknowledgeIsRefusedBeforeWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first, second := stand(t, a, "a"), stand(t, b, "b")
		pending := wait(t.Context(), second)
		for _, ballot := range []store.Ballot{first, second} {
			public, err := ballot.Acknowledge(t.Context(), "v")
			require.ErrorIs(t, err, store.ErrNotFirst)
			require.Zero(t, public)
		}
		require.Zero(t, leader(t, b))
		require.False(t, pending.returned())
		require.False(t, isLost(first))

		require.NoError(t, first.Wait(t.Context()))
		_, err := first.Acknowledge(t.Context(), "v")
		require.NoError(t, err)
		_, err = second.Acknowledge(t.Context(), "w")
		require.ErrorIs(t, err, store.ErrNotFirst)
		require.Equal(t, "v", leader(t, b).Value)
	})
}

func TestAcknowledgeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		before := leader(t, b)
		for _, value := range []string{"a", "a", "new"} {
			public, err := ballot.Acknowledge(t.Context(), value)
			require.NoError(t, err)
			require.Equal(t, value, public.Value)
			require.Greater(t, public.Revision, before.Revision, "its revision is higher than all before it")
			require.Equal(t, public, leader(t, b))
			before = public
		}
	})
}

// TestAcknowledgeWhoseReplyIsLost: the request was carried out, the error says that it might have been, and it can be
// repeated.
func TestAcknowledgeWhoseReplyIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := stand(t, a, "a")
		require.NoError(t, ballot.Wait(t.Context()))
		a.Faults().LoseReplies()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ballot.Acknowledge(ctx, "a")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		before := leader(t, b)
		require.Equal(t, "a", before.Value)
		a.Faults().Heal()
		public, err := ballot.Acknowledge(t.Context(), "a")
		require.NoError(t, err)
		require.Greater(t, public.Revision, before.Revision)
		require.Equal(t, public, leader(t, b))
	})
}

// TestAcknowledgeThatWasNotSentChangesNothing, not even later.
func TestAcknowledgeThatWasNotSentChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := stand(t, a, "a")
		require.NoError(t, ballot.Wait(t.Context()))
		a.Faults().Cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ballot.Acknowledge(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		a.Faults().Heal()
		time.Sleep(ttl)
		require.Zero(t, leader(t, b))
	})
}

func TestAcknowledgeOfALostBallotIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, b := pair(t)
		ballot := lead(t, a, "a")
		service.Clear("x")
		require.Zero(t, leader(t, b))
		_, err := ballot.Acknowledge(t.Context(), "a") // in both cases: the news has arrived, or has not
		require.ErrorIs(t, err, store.ErrLost)
		require.True(t, isLost(ballot))
		_, err = ballot.Acknowledge(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrLost)
		require.Zero(t, leader(t, b))
	})
}

// TestAcknowledgeTellsTheBallotThatItIsLost: Lost "closes when the store learns of it", and the service's refusal is
// how it learns.
func TestAcknowledgeTellsTheBallotThatItIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, _ := pair(t)
		ballot := lead(t, a, "a")
		a.Faults().StallWatches()
		service.Clear("x")
		_, err := ballot.Acknowledge(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrLost)
		require.True(t, isLost(ballot))
	})
}

// TestAcknowledgeDoesNotReplaceTheNextLeader: a former leader that comes back overwrites nothing.
func TestAcknowledgeDoesNotReplaceTheNextLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		old := lead(t, a, "old")
		a.Faults().Cut()
		late := start(func() (store.Leader, error) { return old.Acknowledge(t.Context(), "late") })
		next := lead(t, b, "new") // once a's session has expired
		public := leader(t, b)
		a.Faults().Heal()
		<-late.done
		require.ErrorIs(t, late.err, store.ErrLost)
		_, err := old.Acknowledge(t.Context(), "again")
		require.ErrorIs(t, err, store.ErrLost)
		require.Equal(t, public, leader(t, b))
		require.False(t, isLost(next))
	})
}

// TestAcknowledgementGoesWithItsSession, at the same moment.
func TestAcknowledgementGoesWithItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		prev := leader(t, b)
		a.Faults().Cut()
		next, err := storetest.Leader(t.Context(), b, "x", &prev)
		require.NoError(t, err)
		require.Zero(t, next)
		require.Equal(t, ttl, time.Since(ballot.Lease().Last().Sent))
	})
}

// TestAcknowledgeEndsWithItsBallot: a call that the ballot's loss cuts short says why.
func TestAcknowledgeEndsWithItsBallot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, _ := pair(t)
		ballot := stand(t, a, "a")
		require.NoError(t, ballot.Wait(t.Context()))
		synctest.Wait() // it is watched
		a.Faults().Delay(2 * time.Second)
		service.Clear("x") // the news takes two seconds
		time.Sleep(time.Second)
		began := time.Now()
		_, err := ballot.Acknowledge(t.Context(), "a")
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, err, store.ErrLost, "no context was cancelled")
	})
}

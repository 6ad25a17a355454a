package memory_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestCampaignDoesNotWaitForTheOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "a")
		began := time.Now()
		ballot := stand(t, b, "b")
		require.Zero(t, time.Since(began))
		require.False(t, isLost(ballot))
		require.NoError(t, ballot.Err())
		require.Equal(t, []string{"a", "b"}, standing(t, b))
		require.Zero(t, leader(t, b), "no candidate has acknowledged")
	})
}

func TestCampaignWaitsForTheServiceToConfirm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "first")
		a.Faults().Cut()
		cast := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "a") })
		time.Sleep(ttl / 2)
		require.False(t, cast.returned())
		a.Faults().Heal()
		require.True(t, cast.returned())
		require.NoError(t, cast.err)
		require.Equal(t, []string{"first", "a"}, standing(t, b))
	})
}

func TestCampaignTwiceIsTwoCandidates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		one, two := stand(t, a, "v"), stand(t, a, "v")
		require.Equal(t, []string{"v", "v"}, standing(t, b))
		require.Greater(t, two.Token(), one.Token())
		require.NoError(t, one.Wait(t.Context()))
		second := wait(t.Context(), two)
		require.False(t, second.returned())
		require.NoError(t, one.Withdraw(t.Context()))
		require.True(t, second.returned())
		require.NoError(t, second.err)
		require.False(t, isLost(two))
	})
}

// TestCampaignMakesNoSecondBallotWhenTheReplyIsLost.
func TestCampaignMakesNoSecondBallotWhenTheReplyIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := stand(t, a, "first")
		a.Faults().LoseReplies()
		cast := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "a") })
		for range 3 {
			time.Sleep(time.Second)
			require.False(t, cast.returned())
			require.Equal(t, []string{"first", "a"}, standing(t, b), "the request was carried out, once")
		}
		list, err := b.Ballots(t.Context(), "x")
		require.NoError(t, err)
		a.Faults().Heal()
		<-cast.done
		require.NoError(t, cast.err)
		require.Equal(t, []string{"first", "a"}, standing(t, b))
		require.Equal(t, list[1].Token, cast.value.Token(), "it found the ballot that stood")
		require.False(t, isLost(first))
		require.False(t, isLost(cast.value))
	})
}

// TestCampaignWhoseSessionEndsBeforeTheReply: the ballot ended with its session, and the next one stands in a new
// session.
func TestCampaignWhoseSessionEndsBeforeTheReply(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		lease := stand(t, a, "first").Lease()
		a.Faults().LoseReplies()
		cast := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "a") })
		require.False(t, cast.returned())
		require.Equal(t, []string{"first", "a"}, standing(t, b))
		a.Faults().Cut()
		time.Sleep(2 * ttl)
		require.Empty(t, standing(t, b))
		a.Faults().Heal()
		<-cast.done
		require.NoError(t, cast.err)
		require.Equal(t, []string{"a"}, standing(t, b))
		require.NotSame(t, lease, cast.value.Lease())
		require.False(t, isLost(cast.value))
		require.True(t, holds(cast.value))
	})
}

// TestCampaignInASessionThatIsOver: the service has ended it, and the store does not know yet.
func TestCampaignInASessionThatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "first")
		a.Faults().Expire()
		began := time.Now()
		ballot := stand(t, a, "a")
		require.LessOrEqual(t, time.Since(began), renewal)
		require.Equal(t, []string{"a"}, standing(t, b))
		require.NoError(t, ballot.Wait(t.Context()))
		require.True(t, holds(ballot))
	})
}

// TestCampaignThatWasAbandonedLeavesNoBallot, whatever happened on the line when its context ended. The other ballots
// of the session stay.
func TestCampaignThatWasAbandonedLeavesNoBallot(t *testing.T) {
	for name, fault := range map[string]func(*memory.Faults){
		"cut":                       (*memory.Faults).Cut,
		"reply lost":                (*memory.Faults).LoseReplies,
		"request under way":         func(f *memory.Faults) { f.Delay(2 * time.Second) },
		"reply under way":           func(f *memory.Faults) { f.Delay(700 * time.Millisecond) },
		"reply lost, then cut":      func(f *memory.Faults) { f.LoseReplies(); time.AfterFunc(time.Second/2, f.Cut) },
		"reply lost, cut when done": func(f *memory.Faults) { f.LoseReplies(); time.AfterFunc(time.Second, f.Cut) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, a, b := pair(t)
				first := stand(t, a, "first")
				elsewhere, err := a.Cast(t.Context(), "elsewhere", "")
				require.NoError(t, err)
				fault(a.Faults())
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				ballot, err := a.Cast(ctx, "x", "abandoned")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Nil(t, ballot)
				require.Equal(t, time.Second, time.Since(began))

				time.Sleep(time.Second)
				a.Faults().Heal()
				a.Faults().Delay(0)
				time.Sleep(2 * time.Second) // what is under way still took up to that long
				require.Equal(t, []string{"first"}, standing(t, b))
				time.Sleep(3 * ttl)
				require.Equal(t, []string{"first"}, standing(t, b))
				require.False(t, isLost(first))
				require.False(t, isLost(elsewhere))
				require.True(t, holds(first))
			})
		})
	}
}

// TestCampaignAbandonedBeforeAnOutage: the outage is longer than the TTL, so the ballot goes with its session, and its
// withdrawal leaves the next session's ballots alone.
func TestCampaignAbandonedBeforeAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "first")
		a.Faults().LoseReplies()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Cast(ctx, "x", "abandoned")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		a.Faults().Cut()
		time.Sleep(2 * ttl)
		require.Empty(t, standing(t, b))
		a.Faults().Heal()
		next := stand(t, a, "next")
		time.Sleep(2 * ttl)
		require.Equal(t, []string{"next"}, standing(t, b))
		require.False(t, isLost(next))
	})
}

func TestCampaignWithAnEndedContextSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := a.Cast(ctx, "x", "a")
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, a.Faults().Requests())
		require.Empty(t, standing(t, b))
	})
}

// TestNamesAndValuesAreCheckedBeforeAnythingIsSent: a cut line would block what is sent.
func TestNamesAndValuesAreCheckedBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		first := lead(t, a, "a")
		synctest.Wait() // it is watched
		before := a.Faults().Requests()
		a.Faults().Cut()
		for _, name := range []string{"", "/", "a//b", "..", "a/_ballots", "a__b", "a\x00", strings.Repeat("x", 201)} {
			_, err := a.Cast(t.Context(), name, "a")
			require.ErrorIs(t, err, store.ErrInvalid)
			_, err = storetest.Leader(t.Context(), a, name, nil)
			require.ErrorIs(t, err, store.ErrInvalid)
			_, err = a.Ballots(t.Context(), name)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
		long := strings.Repeat("x", store.MaxValue+1)
		_, err := a.Cast(t.Context(), "x", long)
		require.ErrorIs(t, err, store.ErrInvalid)
		_, err = first.Acknowledge(t.Context(), long)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.Equal(t, before, a.Faults().Requests())
		a.Faults().Heal()
		require.Equal(t, "a", leader(t, a).Value)
	})
}

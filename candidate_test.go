package leadership_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestNewCandidateRefusesWhatStoresDoNotTake(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for _, name := range []string{
			"", "/", "a/", "/a", "a//b", "..", "a/./b", "_a", "a/_ballots", "a__b", "a\x00", "a\n", "\xff", "\ue000",
			"😀", strings.Repeat("x", store.MaxElection+1),
		} {
			_, err := leadership.NewCandidate(st, name, "v", nil)
			require.ErrorIs(t, err, store.ErrInvalid, "%q", name)
			var field *store.FieldError
			require.ErrorAs(t, err, &field, "%q", name)
			require.Equal(t, "election", field.Field, "%q", name)
		}
		_, err := leadership.NewCandidate(st, election, strings.Repeat("v", store.MaxValue+1), nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "value")
		_, err = leadership.NewCandidate(nil, election, "v", nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "store")
		require.Zero(t, st.Faults().Requests(), "it sends nothing")
	})
}

// A paused process runs none of our goroutines. Here a ballot that blocks the goroutine of the term stands for the
// pause.
func TestIsLeaderIsRightWhereNothingOfOursHasRun(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		resumed := make(chan struct{})
		c := w.candidate(changing(st, func(b *fakeBallot) { b.frozen = resumed }), "a", nil)
		resume := sync.OnceFunc(func() { close(resumed) })
		w.Cleanup(resume)
		term := w.campaign(c)
		st.Faults().Cut()
		w.at(valid - 1)
		require.True(w, c.IsLeader())
		w.at(10 * ttl)
		require.NoError(w, term.Context().Err(), "nothing of ours has run")
		require.False(w, c.IsLeader())
		require.Zero(w, term.Remaining())
		require.Zero(w, term.Deadline())
		require.ErrorIs(w, term.Acknowledge(background), leadership.ErrNotElected)
		resume()
		synctest.Wait()
		require.ErrorIs(w, context.Cause(term.Context()), leadership.ErrLost)
	})
}

func TestIsLeaderAllocatesNothing(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		require.Zero(w, testing.AllocsPerRun(100, func() { c.IsLeader() }))
		w.campaign(c)
		require.True(w, c.IsLeader())
		require.Zero(w, testing.AllocsPerRun(100, func() { c.IsLeader() }))
	})
}

// The same if no goroutine of ours has run when the confirmation arrives: the lease holds again, but the term is over.
func TestLateConfirmationRevivesNothingUnseen(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		resumed := make(chan struct{})
		var lease *store.Lease
		c := w.candidate(changing(st, func(b *fakeBallot) { b.frozen, lease = resumed, b.Ballot.Lease() }), "a", nil)
		resume := sync.OnceFunc(func() { close(resumed) })
		w.Cleanup(resume)
		term := w.campaign(c)
		st.Faults().Delay(3 * time.Second)
		w.at(10 * time.Second) // deadline at 8 s, confirmation at 9 s of what was sent at 3 s, lasting until 11 s
		require.NoError(w, term.Context().Err(), "nothing of ours has run")
		require.Equal(w, w.began.Add(renew), lease.Last().Sent, "the confirmation has come")
		require.False(w, c.IsLeader())
		require.Zero(w, term.Remaining())
		require.Zero(w, term.Deadline())
		resume()
		st.Faults().Delay(0)
	})
}

// The store has been restored to an earlier state.
func TestTokenThatIsNotHigherIsRefused(t *testing.T) {
	for name, token := range map[string]uint64{"lower": 50, "equal": 100} {
		virtualRun(t, name, func(w *world) {
			next := uint64(100)
			c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.token = next }), "a", nil)
			term := w.campaign(c)
			require.Equal(w, uint64(100), term.Token())
			require.NoError(w, term.Withdraw(background))
			next = token
			_, err := c.Campaign(background)
			require.ErrorIs(w, err, leadership.ErrTokenRegressed)
			require.ErrorContains(w, err, election)
			require.ErrorContains(w, err, "100")
			require.False(w, c.IsLeader())
			require.Empty(w, w.ballots(), "the refused ballot is given back")
			next = 101
			require.Equal(w, uint64(101), w.campaign(c).Token(), "a higher one is fine again")
		})
	}
}

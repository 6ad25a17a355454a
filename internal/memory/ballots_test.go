package memory_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestBallotsListsThoseStandingFirstInLineFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		list, err := a.Ballots(t.Context(), "no candidate/ever stood here")
		require.NoError(t, err)
		require.Empty(t, list)

		var want []store.Standing
		var ballots []store.Ballot
		for i, st := range []*memory.Store{a, b, b, a} {
			value := []string{"", "\x00\xff", "v", "v"}[i]
			ballot := stand(t, st, value)
			ballots = append(ballots, ballot)
			want = append(want, store.Standing{Value: value, Token: ballot.Token()})
		}
		_, err = a.Cast(t.Context(), "x/y", "another election")
		require.NoError(t, err)
		for _, st := range []*memory.Store{a, b} {
			list, err := st.Ballots(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, want, list)
		}

		require.NoError(t, ballots[2].Withdraw(t.Context()))
		require.Equal(t, []string{"", "\x00\xff", "v"}, standing(t, b))
		require.NoError(t, ballots[0].Withdraw(t.Context()))
		require.Equal(t, []string{"\x00\xff", "v"}, standing(t, a))
	})
}

// TestBallotsListsLostBallotsNoMore, whether or not their store knows.
func TestBallotsListsLostBallotsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "a")
		stand(t, b, "b")
		a.Faults().Cut()
		time.Sleep(ttl + time.Nanosecond)
		require.Equal(t, []string{"b"}, standing(t, b))
	})
}

func TestServicesAreApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		_, c, _ := pair(t)
		lead(t, a, "a")
		require.Empty(t, standing(t, c))
		require.Zero(t, leader(t, c))
		lead(t, c, "c")
		require.Equal(t, "a", leader(t, a).Value)
	})
}

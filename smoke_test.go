package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a, _ := memory.Open(svc, nil)
		b, _ := memory.Open(svc, nil)
		defer a.Close()
		defer b.Close()
		ca, err := leadership.NewCandidate(a, "x", "A", nil)
		require.NoError(t, err)
		cb, _ := leadership.NewCandidate(b, "x", "B", nil)
		f, _ := leadership.NewFollower(b, "x", nil)
		vals, _ := f.FollowElection()
		defer f.Stop()
		require.Equal(t, "", <-vals)
		ta, err := ca.Campaign(context.Background())
		require.NoError(t, err)
		require.NoError(t, ta.Acknowledge(context.Background()))
		require.Equal(t, "A", <-vals)
		ev, _ := cb.RunForElection()
		require.False(t, <-ev)
		start := time.Now()
		a.Faults().Cut()
		require.True(t, <-ev)
		t.Log(time.Since(start))
		require.False(t, ca.IsLeader())
		require.True(t, cb.IsLeader())
		require.Error(t, ta.Acknowledge(context.Background()))
		synctest.Wait()
		require.Equal(t, "B", <-vals)
		a.Faults().Heal()
		require.NoError(t, ta.Resign(context.Background()))
		cb.Stop()
		ca.Stop()
		require.False(t, <-ev)
	})
}

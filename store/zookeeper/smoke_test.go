package zookeeper_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSmoke(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})
	ctx := context.Background()
	url := "zookeeper://" + srv.Addrs()[0] + "/?ttl=2s"
	a, err := store.Open(ctx, url)
	require.NoError(t, err)
	defer a.Close()
	b, err := store.Open(ctx, url)
	require.NoError(t, err)
	defer b.Close()
	ca, _ := leadership.NewCandidate(a, "x/y", "A", nil)
	cb, _ := leadership.NewCandidate(b, "x/y", "B", nil)
	f, _ := leadership.NewFollower(b, "x/y", nil)
	vals, _ := f.FollowElection()
	defer f.Stop()
	require.Equal(t, "", <-vals)
	ta, err := ca.Campaign(ctx)
	require.NoError(t, err)
	require.NoError(t, ta.Acknowledge(ctx))
	require.Equal(t, "A", <-vals)
	ev, _ := cb.RunForElection()
	require.False(t, <-ev)
	require.Eventually(t, func() bool { l, err := b.Ballots(ctx, "x/y"); return err == nil && len(l) == 2 }, 10*time.Second, time.Millisecond)
	start := time.Now()
	require.NoError(t, ta.Resign(ctx))
	require.True(t, <-ev)
	t.Log(time.Since(start))
	for v := range vals {
		t.Log("v", v)
		if v == "B" {
			break
		}
	}
	cb.Stop()
	ca.Stop()
	require.False(t, <-ev)
	list, err := b.Ballots(ctx, "x/y")
	require.NoError(t, err)
	require.Empty(t, list)
}

func BenchmarkHandover(b *testing.B) {
	b.Skip()
	_ = zk.FlagEphemeral
	_ = fmt.Sprint
}

// Package cluster_test runs the conformance suite on clusters that are never left alone. It is a package of its own so
// that it can run beside the suite on single servers.
package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/harness"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestZooKeeper(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{Members: 3})
	runDisturbed(t, srv, harness.ZooKeeper.On(t, srv.Addrs()...))
}

func TestEtcd(t *testing.T) {
	srv := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3})
	runDisturbed(t, srv, harness.Etcd.On(t, srv.Addrs()...))
}

// The stores speak to an agent that is no server, as they do in production.
func TestConsul(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{
		Members: 3, Client: true,
		Extra: "autopilot { cleanup_dead_servers = false }", // which would make a cluster of two of them
	})
	runDisturbed(t, srv, harness.Consul.On(t, srv.Client().Addr()))
}

// cluster is a service of several members.
type cluster interface {
	Leader() (int, error)
	Member(i int) *testserver.Member
	Ready(ctx context.Context) error
}

// runDisturbed runs the suite on a cluster that is never left alone: in turn, a case begins just when the cluster's
// leader has been killed, and goes on without that member; and just when another member is being restarted.
func runDisturbed(t *testing.T, c cluster, h conformance.Harness) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for i, each := range conformance.Cases() {
		t.Run(each.Name, func(t *testing.T) {
			leader := leaderOf(t, ctx, c)
			if i%2 == 0 {
				require.NoError(t, c.Member(leader).Kill())
				each.Check(t, h)
				require.NoError(t, c.Member(leader).Start(ctx))
				return
			}
			restarted := c.Member(i / 2 % 3)
			if err := restarted.Stop(); err != nil {
				t.Logf("a member was killed that did not stop: %v", err)
			}
			started := make(chan error)
			go func() { started <- restarted.Start(ctx) }()
			each.Check(t, h)
			require.NoError(t, <-started)
		})
	}
}

// leaderOf waits until the cluster is whole and agrees on its leader, which may change once more when a member has
// come back.
func leaderOf(t *testing.T, ctx context.Context, c cluster) int {
	t.Helper()
	for {
		require.NoError(t, c.Ready(ctx))
		if leader, err := c.Leader(); err == nil {
			return leader
		}
	}
}

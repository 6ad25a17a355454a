package harness

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// Cluster is a service of several members.
type Cluster interface {
	Leader() (int, error)
	Member(i int) *testserver.Member
	Ready(ctx context.Context) error
}

// RunDisturbed runs the suite on a cluster whose members are killed and restarted all the time. In turn, some cases begin
// just when the cluster's leader has been killed, and run without that member; and some begin just when another member is
// being restarted: two at a time, or more if each change of the leader costs much. Cases that count goroutines (G7) begin
// when the member is back, since new connections have goroutines too.
func RunDisturbed(t *testing.T, c Cluster, h conformance.Harness, atATime int) {
	ctx, cancel := context.WithTimeout(context.Background(), 18*time.Minute) // a busy machine takes ten
	defer cancel()
	for i, group := range groups(atATime) {
		t.Run(group.name(), func(t *testing.T) {
			leader := leaderOf(t, ctx, c)
			undisturbed := slices.Contains(group[0].Promises, "G7")
			if i%2 == 0 && !undisturbed {
				require.NoError(t, c.Member(leader).Kill())
				group.run(t, h)
				require.NoError(t, c.Member(leader).Start(ctx))
				return
			}
			restarted := c.Member(i / 2 % 3)
			if err := restarted.Stop(); err != nil {
				t.Logf("a member was killed that did not stop: %v", err)
			}
			started := make(chan error, 1)
			go func() { started <- restarted.Start(ctx) }()
			if undisturbed {
				require.NoError(t, <-started)
				leaderOf(t, ctx, c)
				group.run(t, h)
				return
			}
			group.run(t, h)
			require.NoError(t, <-started)
		})
	}
}

// leaderOf waits until the cluster is whole and agrees on its leader, which may change once more when a member has
// come back.
func leaderOf(t *testing.T, ctx context.Context, c Cluster) int {
	t.Helper()
	for {
		require.NoError(t, c.Ready(ctx))
		if leader, err := c.Leader(); err == nil {
			return leader
		}
	}
}

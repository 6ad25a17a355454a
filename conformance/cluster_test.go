package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/stretchr/testify/require"
)

// cluster is a service of three members.
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
			require.NoError(t, c.Ready(ctx))
			if i%2 == 0 {
				leader, err := c.Leader()
				require.NoError(t, err)
				require.NoError(t, c.Member(leader).Kill())
				each.Check(t, h)
				require.NoError(t, c.Member(leader).Start(ctx))
				return
			}
			restarted := c.Member(i / 2 % 3)
			require.NoError(t, restarted.Stop())
			started := make(chan error)
			go func() { started <- restarted.Start(ctx) }()
			each.Check(t, h)
			require.NoError(t, <-started)
		})
	}
}

package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The servers' leader dies. A term survives the time without one if that is shorter than 5/12 of the TTL: a lease is
// two thirds of the TTL, and the last renewal is up to a quarter of it old. See docs/backends.md.
func TestServersElectALeader(t *testing.T) {
	for name, c := range map[string]struct {
		multiplier string
		ttl        time.Duration
	}{
		"raft_multiplier 5, the default": {"5", time.Minute},
		"raft_multiplier 1":              {"1", 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{
				Members: 3, Extra: "performance { raft_multiplier = " + c.multiplier + " }",
			})
			leader, err := srv.Leader()
			require.NoError(t, err)
			st := open(t, consul.Config{Addresses: []string{srv.Addrs()[(leader+1)%3]}, TTL: c.ttl})
			election := newElection()
			b := castFirst(t, st, election, "own")
			acknowledge(t, b, "own")
			span, holds := b.Lease().Span()
			require.True(t, holds)
			killed := time.Now()
			require.NoError(t, srv.Member(leader).Kill())
			again, err := storetest.Leader(within(t, time.Minute), st, election, nil) // a consistent read
			require.NoError(t, err)
			require.Equal(t, "own", again.Value)
			t.Logf("no leader among the servers for %v; the lease has %v left", time.Since(killed), b.Lease().Remaining())
			confirmed := time.Now()
			require.Eventually(t, func() bool { return b.Lease().Last().Sent.After(confirmed) }, c.ttl, 50*time.Millisecond, "a renewal")
			require.True(t, b.Lease().Holds(span))
			require.NoError(t, b.Err())
		})
	}
}

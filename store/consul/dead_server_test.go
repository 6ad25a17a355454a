package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The agent is one of three servers, and falls silent. The others' autopilot removes it, and the sessions of its node
// end long before their TTL. If autopilot keeps dead servers, the sessions go on.
func TestDeadServerIsRemoved(t *testing.T) {
	const ttl = 20 * time.Second
	const keep = "autopilot { cleanup_dead_servers = false }"
	for name, c := range map[string]struct {
		extra string
		early bool // the session ends early; otherwise the lease ends first
	}{
		"removed": {early: true},
		"kept":    {extra: keep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{Members: 3, Extra: c.extra})
			leader, err := srv.Leader()
			require.NoError(t, err)
			silent, other := (leader+1)%3, (leader+2)%3
			at := func(i int) *consul.Store {
				return open(t, consul.Config{Addresses: []string{srv.Addrs()[i]}, TTL: ttl})
			}
			election := newElection()
			first := castFirst(t, at(silent), election, "first")
			next := cast(t, at(other), election, "next")
			began := time.Now()
			require.NoError(t, srv.Member(silent).Pause())
			defer func() { _ = srv.Member(silent).Resume() }() // before the stores are closed
			if !c.early {
				eventually(t, func() bool { return first.Lease().Remaining() == 0 }, "the lease has ended")
				waiting(t, next)
				return
			}
			require.NoError(t, next.Wait(within(t, 2*ttl)))
			took := time.Since(began)
			t.Logf("the successor led after %v, when the lease had %v left", took, first.Lease().Remaining())
			// The last renewal was sent up to TTL/4 before, and a session lives for two TTLs.
			require.Less(t, took, ttl*7/4)
		})
	}
}

//go:build unix

package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A leader that is killed is replaced within the TTL and 1.5 s if the TTL is below 10 s, and within twice the TTL and a
// second otherwise.
func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	const busy = time.Second // for agents on a busy machine; the TTLs themselves: TestTTLsOfASession
	for _, c := range []struct{ ttl, bound time.Duration }{
		{short, short + 1500*time.Millisecond},
		{least, 2*least + time.Second},
	} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			t.Parallel()
			meter := stall.Watch(t)
			url := "consul://" + sharedServer(t).Addrs()[0] + "/?ttl=" + c.ttl.String()
			took := storetest.LeaderIsKilled(t, url, open(t, consul.Config{TTL: c.ttl}))
			t.Logf("of %v", c.bound)
			require.Less(t, took, c.bound+busy+meter.Stalled(), "%v", meter)
		})
	}
}

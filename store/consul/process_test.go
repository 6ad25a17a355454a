//go:build unix

package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A leader that is killed is replaced within 2.5 s at a TTL of 1 s, on a stock agent, and within twice the TTL and a
// second at 10 s.
func TestKilledLeaderIsReplaced(t *testing.T) {
	for _, c := range []struct{ ttl, bound time.Duration }{
		{short, 2500 * time.Millisecond},
		{long, 2*long + time.Second},
	} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			t.Parallel()
			url := "consul://" + sharedServer(t).Addrs()[0] + "/?ttl=" + c.ttl.String()
			require.Less(t, storetest.LeaderIsKilled(t, url, open(t, consul.Config{TTL: c.ttl})), c.bound)
		})
	}
}

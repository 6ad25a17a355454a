package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store/consul"
)

// A process is killed: its successor leads within the documented bounds, 2.5 s at a TTL of 1 s on a stock agent, and twice
// the TTL and a second at 10 s. The test only reports it; how exactly they are kept is for the benchmarks.
func TestProcessIsKilled(t *testing.T) {
	for _, ttl := range []time.Duration{short, long} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			url := "consul://" + sharedServer(t).Addrs()[0] + "/?ttl=" + ttl.String()
			storetest.LeaderIsKilled(t, url, open(t, consul.Config{TTL: ttl}))
		})
	}
}

//go:build unix

package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// sharedURL is that of a store on the shared server.
func sharedURL(t *testing.T) string {
	return "etcd://" + sharedServer(t).Addrs()[0] + "/?ttl=" + middling.String()
}

// A process is stopped for longer than the TTL and resumed. Its successor leads, and the first thing that the process
// sees is that it does not lead.
func TestProcessIsStopped(t *testing.T) {
	t.Parallel()
	storetest.LeaderIsStopped(t, sharedURL(t), open(t, Config{}))
}

// A process is killed: its successor leads within the documented bound, the TTL and a second. The test only reports the
// time; benchmarks on a machine of their own check the bound.
func TestProcessIsKilled(t *testing.T) {
	t.Parallel()
	storetest.LeaderIsKilled(t, sharedURL(t), open(t, Config{}))
}

// The cluster's leader is killed together with the leader's process. The cluster's next leader counts every lease's TTL
// anew, so the successor leads later, but within the documented bound: two TTLs, three election timeouts and a second.
// A vote that no member wins takes two election timeouts more; the test allows for one.
func TestProcessAndMemberAreKilled(t *testing.T) {
	t.Parallel()
	const electionTimeout = time.Second
	meter := stall.Watch(t)
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, ElectionTimeout: electionTimeout, Extra: fast})
	url := "etcd://" + strings.Join(server.Addrs(), ",") + "/?ttl=" + middling.String()
	var i int
	eventually(t, func() bool { // on a busy machine a member can lose its followers for a moment
		var err error
		i, err = server.Leader()
		return err == nil
	}, "a member leads")
	took := storetest.LeaderIsKilled(t, url, open(t, Config{Endpoints: server.Addrs()}), func() {
		require.NoError(t, server.Member(i).Kill())
	})
	require.Less(t, took, 2*middling+5*electionTimeout+time.Second+meter.Stalled(), "%v", meter)
}

//go:build unix

package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/zookeeper"
)

// A process is stopped for longer than the TTL and resumed. Its successor leads, and the first thing that the process
// sees is that it does not lead.
func TestProcessIsStopped(t *testing.T) {
	t.Parallel()
	storetest.LeaderIsStopped(t, "zookeeper://"+sharedServer(t).Addrs()[0], open(t, zookeeper.Config{}))
}

// A process is killed: its successor leads within the documented bound, the TTL and two ticks. The test only reports
// the time; benchmarks on a machine of their own check the bound.
func TestProcessIsKilled(t *testing.T) {
	t.Parallel()
	storetest.LeaderIsKilled(t, "zookeeper://"+sharedServer(t).Addrs()[0], open(t, zookeeper.Config{}))
}

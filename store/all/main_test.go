package all_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// The servers grant: ZooKeeper, whose tick is 500 ms, sessions of 1 s to 10 s; etcd leases of 2 s and more.
var (
	sharedZooKeeper = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{})
	sharedEtcd      = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{})
	sharedConsul    = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{})
)

// address returns the host and port of the server for a kind of store, and a name for those in memory.
func address(t *testing.T, kind string) string {
	t.Helper()
	switch kind {
	case "zookeeper":
		return sharedZooKeeper(t).Addrs()[0]
	case "etcd":
		return sharedEtcd(t).Addrs()[0]
	case "consul":
		return sharedConsul(t).Addrs()[0]
	}
	return "all"
}

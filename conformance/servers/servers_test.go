package servers_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/all"
)

// The servers. Cases without check open more connections from one address than an agent of Consul takes by default.
var (
	zooKeeper = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{Extra: map[string]string{"forceSync": "no"}})
	etcd      = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Extra: []string{"--unsafe-no-fsync"}})
	consul    = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{Extra: `limits { http_max_conns_per_client = 5000 }`})
)

// atATime is how many cases of each store run at the same time.
const atATime = 5

// TestCounting runs before the tests in parallel: its cases count the goroutines of this process, which are those of all
// stores.
func TestCounting(t *testing.T) {
	run := func(kind harness.Kind, addrs ...string) {
		t.Run(kind.Scheme, func(t *testing.T) {
			harness.RunCounting(t, kind.Patiently().On(t, addrs...), kind.On(t, addrs...))
		})
	}
	run(harness.ZooKeeper, zooKeeper(t).Addrs()...)
	run(harness.Etcd, etcd(t).Addrs()...)
	run(harness.Consul, consul(t).Addrs()...)
}

// The other cases, on all stores at the same time. On Consul without check each takes as long as with such a TTL anyway.

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.ZooKeeper.Patiently().On(t, zooKeeper(t).Addrs()...), atATime)
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.Etcd.Patiently().On(t, etcd(t).Addrs()...), atATime)
}

func TestConsul(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.Consul.Patiently().On(t, consul(t).Addrs()...), atATime)
}

// With a TTL of 10 s or more the store uses no check, and Consul ends a session after up to twice the TTL.
func TestConsulWithoutCheck(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.ConsulSession.On(t, consul(t).Addrs()...), 2*atATime,
		"cast-at-the-same-moment") // forty candidates at once slow down all others, and TestConsul has them
}

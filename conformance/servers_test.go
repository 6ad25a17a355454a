package conformance_test

import (
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/harness"
	"github.com/go-leadership/leadership/internal/testserver"
)

func TestZooKeeper(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})
	conformance.Run(t, harness.ZooKeeper.On(t, srv.Addrs()...))
}

func TestEtcd(t *testing.T) {
	srv := testserver.NewEtcd(t, testserver.EtcdConfig{})
	conformance.Run(t, harness.Etcd.On(t, srv.Addrs()...))
}

func TestConsul(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	conformance.Run(t, harness.Consul.On(t, srv.Addrs()...))
}

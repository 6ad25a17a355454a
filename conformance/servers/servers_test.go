package servers_test

import (
	"sync"
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/all"
)

func TestZooKeeper(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{Extra: map[string]string{"forceSync": "no"}})
	harness.Run(t, harness.ZooKeeper.On(t, srv.Addrs()...))
}

func TestEtcd(t *testing.T) {
	srv := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: []string{"--unsafe-no-fsync"}})
	harness.Run(t, harness.Etcd.On(t, srv.Addrs()...))
}

func TestConsul(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	harness.Run(t, harness.Consul.On(t, srv.Addrs()...))
}

// With a TTL of 10 s or more the store uses no check, and Consul ends a session after up to twice the TTL. The cases take
// long, so they run in parallel, without those that count goroutines and requests, which TestConsul has. Together they
// open more connections from one address than an agent takes by default.
func TestConsulWithoutCheck(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{Extra: `limits { http_max_conns_per_client = 5000 }`})
	h := harness.ConsulSession.On(t, srv.Addrs()...)
	places := make(chan struct{}, 20) // the cases mostly wait, but all at the same moment would slow each other down
	var cases sync.WaitGroup
	defer cases.Wait()
	for _, c := range conformance.Cases() {
		switch c.Name {
		case "cast-at-the-same-moment": // forty candidates at once slow down all others
			continue
		case "stop-leaves-nothing", "close-leaves-nothing", "many-starts-and-stops", "an-outage-is-quiet", "a-change-wakes-one":
			continue
		}
		places <- struct{}{}
		cases.Go(func() {
			defer func() { <-places }()
			t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
		})
	}
}

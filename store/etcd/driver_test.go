package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/go-leadership/leadership/store/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*clientv3.Client{"own connection": nil, "caller's client": operator(t)} {
		t.Run(name, func(t *testing.T) {
			config := etcd.Config{Client: client, TTL: middling} // in which a busy machine renews many sessions
			if client == nil {
				config.Endpoints = sharedServer(t).Addrs()
			}
			harness := drivertest.Harness{
				Open: func(context.Context) (engine.Driver, error) { return etcd.NewDriver(config) },
				TTL:  config.TTL,
			}
			if client == nil {
				harness.OpenSlow = func(_ context.Context, delay time.Duration) (engine.Driver, error) {
					network, slow := conformance.NewNetwork(), config
					network.DelayReplies(delay)
					slow.Dial = network.Dial
					return etcd.NewDriver(slow)
				}
			}
			drivertest.Run(t, harness)
		})
	}
}

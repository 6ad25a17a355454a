package etcd_test

import (
	"context"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/go-leadership/leadership/store/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*clientv3.Client{"own connection": nil, "caller's client": operator(t)} {
		t.Run(name, func(t *testing.T) {
			config := etcd.Config{Client: client, TTL: ttl}
			if client == nil {
				config.Endpoints = sharedServer(t).Addrs()
			}
			drivertest.Run(t, drivertest.Harness{
				Open: func(context.Context) (engine.Driver, error) { return etcd.NewDriver(config) },
				TTL:  ttl,
			})
		})
	}
}

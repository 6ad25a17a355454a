package zookeeper_test

import (
	"context"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/go-leadership/leadership/store/zookeeper"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Harness{TTL: ttl, Open: func(context.Context) (engine.Driver, error) {
		return zookeeper.NewDriver(zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: ttl})
	}})
}

// The caller closes each connection after the driver, and the session ends with it.
func TestDriverOnCallersConnection(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Harness{TTL: ttl, Open: func(context.Context) (engine.Driver, error) {
		return zookeeper.NewDriver(zookeeper.Config{Conn: connectRaw(t, ttl, sharedServer(t).Addrs()...), TTL: ttl})
	}})
}

package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/go-leadership/leadership/store/zookeeper"
)

// driverTTL is one in which a busy machine renews many sessions.
const driverTTL = 9 * time.Second

func TestDriver(t *testing.T) {
	t.Parallel()
	open := func(dial conformance.DialFunc) (engine.Driver, error) {
		return zookeeper.NewDriver(zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: driverTTL, Dial: dial})
	}
	drivertest.Run(t, drivertest.Harness{
		TTL:      driverTTL,
		Open:     func(context.Context) (engine.Driver, error) { return open(nil) },
		OpenSlow: func(_ context.Context, delay time.Duration) (engine.Driver, error) { return open(slow(delay)) },
		Break:    zookeeper.Break,
	})
}

// slow dials lines on which each answer takes the delay longer.
func slow(delay time.Duration) conformance.DialFunc {
	network := conformance.NewNetwork()
	network.DelayReplies(delay)
	return network.Dial
}

package testserver

import (
	"context"
	"os"
	"testing"
	"time"
)

// NewZooKeeper starts a service for a test, which fails if it is not ready
// within a minute. When the test ends, so does the service. If the test
// failed, the end of each member's log becomes part of its output.
func NewZooKeeper(t testing.TB, cfg ZooKeeperConfig) *ZooKeeper {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	z, err := StartZooKeeper(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			z.logTo(t)
		}
		if err := z.Close(); err != nil {
			t.Errorf("closing ZooKeeper: %v", err)
		}
	})
	return z
}

func (z *ZooKeeper) logTo(t testing.TB) {
	const lines = 60
	for i, m := range z.members {
		log, err := os.ReadFile(m.logFile())
		if err != nil {
			t.Logf("log of ZooKeeper member %d: %v", i, err)
			continue
		}
		t.Logf("end of the log of ZooKeeper member %d at %s:\n%s", i, m.addr, tail(log, lines))
	}
}

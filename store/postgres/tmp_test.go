package postgres_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

func TestTmpDriver(t *testing.T) {
	config := postgres.Config{Addresses: []string{os.Getenv("PGADDR")}, User: "tester", Database: "postgres", TTL: 3 * time.Second}
	drivertest.Run(t, drivertest.Harness{TTL: config.TTL,
		Open: func(context.Context) (engine.Driver, error) { return postgres.NewDriver(config) },
		OpenSlow: func(_ context.Context, delay time.Duration) (engine.Driver, error) {
			network, slow := conformance.NewNetwork(), config
			network.DelayReplies(delay)
			slow.Dial = network.Dial
			return postgres.NewDriver(slow)
		},
	})
}

func TestTmpConformance(t *testing.T) {
	h, err := conformance.URL("postgres://tester@"+os.Getenv("PGADDR")+"/postgres?ttl=3s", "suite")
	require.NoError(t, err)
	h.Expiry = 3*time.Second*5/4 + time.Second
	harness.Run(t, h)
}

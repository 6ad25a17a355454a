package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/go-leadership/leadership/store/postgres"
)

// The cases that count the goroutines of this process run before the tests in parallel.
func TestCounting(t *testing.T) {
	addrs := sharedServer(t).Addrs()
	harness.RunCounting(t, harness.Postgres.Patiently().On(t, addrs...), harness.Postgres.On(t, addrs...))
}

// The other cases of the suite.
func TestConformance(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.Postgres.Patiently().On(t, sharedServer(t).Addrs()...), 8)
}

func TestDriver(t *testing.T) {
	t.Parallel()
	schema, _ := ownSchema(t)
	config := postgres.Config{
		Addresses: sharedServer(t).Addrs(), User: testserver.PostgresUser, Database: "postgres", Schema: schema, TTL: 9 * time.Second,
	}
	drivertest.Run(t, drivertest.Harness{
		TTL:  config.TTL,
		Open: func(context.Context) (engine.Driver, error) { return postgres.NewDriver(config) },
		OpenSlow: func(_ context.Context, delay time.Duration) (engine.Driver, error) {
			network, slow := conformance.NewNetwork(), config
			network.DelayReplies(delay)
			slow.Dial = network.Dial
			return postgres.NewDriver(slow)
		},
	})
}

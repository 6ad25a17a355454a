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

func TestDriver(t *testing.T) {
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	config := postgres.Config{Addresses: srv.Addrs(), User: testserver.PostgresUser, Database: "postgres", TTL: 3 * time.Second}
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

func TestConformance(t *testing.T) {
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	harness.Run(t, harness.Postgres.On(t, srv.Addrs()...))
}

package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
)

// TestEnvironment: the variables of PostgreSQL's own tools change nothing.
func TestEnvironment(t *testing.T) {
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	for name, value := range map[string]string{
		"PGHOST": "192.0.2.1", "PGREQUIREAUTH": "scram-sha-256", "PGCHANNELBINDING": "require", "PGMINPROTOCOLVERSION": "3.2",
		"PGMAXPROTOCOLVERSION": "latest", "PGOPTIONS": "-c no_such_setting=x", "PGSSLMODE": "verify-full", "PGTARGETSESSIONATTRS": "standby",
		"PGSSLCERTMODE": "require", "PGSSLNEGOTIATION": "direct",
	} {
		t.Setenv(name, value)
	}
	castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs()}), newElection(), "own")
}

package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
)

// TestReadOnlyDefault: an operator has made transactions read-only unless a program asks for others.
func TestReadOnlyDefault(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	srv.Query(t, "ALTER DATABASE postgres SET default_transaction_read_only = on")
	first := open(t, postgres.Config{Addresses: srv.Addrs()}) // creates the schema
	castFirst(t, first, newElection(), "own")
	castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs()}), newElection(), "own")
}

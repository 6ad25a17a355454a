package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
)

// Settings that an operator has made for a role do not change what the driver needs.
func TestOperatorsDefaults(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	for name, setting := range map[string]string{
		"repeatable":   "default_transaction_isolation = 'repeatable read'",
		"serializable": "default_transaction_isolation = 'serializable'",
		"readonly":     "default_transaction_read_only = on",
		"deferrable":   "default_transaction_deferrable = on",
		"unsure":       "synchronous_commit = off",
		"hasty":        "lock_timeout = '1ms'",
		"latin":        "client_encoding = 'LATIN1'",
		"searching":    "search_path = ''",
		"verbose":      "client_min_messages = 'debug5'",
		"quiet":        "client_min_messages = 'error'",
		"styled":       "bytea_output = 'escape'",
	} {
		role := "the_" + name
		server.Query(t, "CREATE ROLE "+role+" LOGIN SUPERUSER; ALTER ROLE "+role+" SET "+setting)
		t.Run(name, func(t *testing.T) {
			stores := make([]*postgres.Store, 8)
			for i := range stores {
				stores[i] = open(t, postgres.Config{Addresses: server.Addrs(), User: role, TTL: long})
				castFirst(t, stores[i], newElection(), "so that there is a session")
			}
			for range 5 {
				atOnce(t, stores, 24)
			}
			election := newElection()
			b := castFirst(t, stores[0], election, "mit ü")
			acknowledge(t, b, "\\x00 \x00\xff ü")
			requireLeader(t, stores[1], election, "\\x00 \x00\xff ü")
		})
	}
}

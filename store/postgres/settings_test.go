package postgres_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
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

// Each setting that the driver needs is the driver's, also if an operator has set another one for the role. What the
// operator has set for commits stays if they wait for a standby.
func TestSettings(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	server.Query(t, "CREATE ROLE other LOGIN SUPERUSER")
	for _, c := range []struct{ name, operators, drivers string }{
		{"default_transaction_isolation", "serializable", "read committed"},
		{"default_transaction_read_only", "on", "off"},
		{"default_transaction_deferrable", "on", "off"},
		{"statement_timeout", "1min", "15s"},
		{"lock_timeout", "1min", "15s"},
		{"idle_session_timeout", "1h", "0"},
		{"client_encoding", "LATIN1", "UTF8"},
		{"client_min_messages", "error", "warning"},
		{"bytea_output", "escape", "hex"},
		{"jit", "on", "off"},
		{"synchronous_commit", "off", "on"},
		{"synchronous_commit", "local", "on"},
		{"synchronous_commit", "remote_write", "remote_write"},
		{"synchronous_commit", "remote_apply", "remote_apply"},
	} {
		server.Query(t, "ALTER ROLE other RESET ALL; ALTER ROLE other SET "+c.name+" = '"+c.operators+"'")
		d, err := postgres.NewDriver(postgres.Config{Addresses: server.Addrs(), User: "other", Database: "postgres", TTL: 20 * time.Second})
		require.NoError(t, err)
		value, err := postgres.Setting(soon(t), d, c.name)
		require.NoError(t, err)
		require.Equal(t, c.drivers, value, "%s, which is %s for the role", c.name, c.operators)
		require.NoError(t, d.Close())
	}
}

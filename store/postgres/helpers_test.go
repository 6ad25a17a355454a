package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

const (
	// ttl is the TTL of tests that wait for its end.
	ttl = 5 * time.Second
	// long is the TTL of all others, so that a machine that stands still for some seconds spoils none.
	long = 40 * time.Second
)

// The names under which these tests use what package storetest has for the tests of all stores.
var (
	newElection    = storetest.NewElection
	soon           = storetest.Soon
	within         = storetest.Within
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	castFirst      = storetest.CastFirst
	acknowledge    = storetest.Acknowledge
	lost           = storetest.Lost
	values         = storetest.Values
	contend        = storetest.Contend
	oneLeader      = storetest.OneLeader
	leaderAmong    = storetest.LeaderAmong
	requireInvalid = storetest.RequireInvalid
	renewed        = storetest.Renewed
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// open opens a store that the end of the test closes. The defaults are long, the superuser and the shared server.
func open(t testing.TB, config postgres.Config) *postgres.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = long
	}
	if config.Addresses == nil {
		config.Addresses = sharedServer(t).Addrs()
	}
	if config.User == "" {
		config.User = testserver.PostgresUser
	}
	if config.Database == "" {
		config.Database = "postgres"
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	st, err := postgres.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// newSchema returns the name of a schema that no other test uses, and what runs SQL in it, if it exists, on the shared
// server: what is of the schema is named without it. Rows are returned as psql -At prints them.
func newSchema(t *testing.T) (name string, query func(sql string) string) {
	t.Helper()
	name = strings.ReplaceAll(newElection(), " ", "_")
	conn := dial(t, name)
	return name, func(sql string) string {
		t.Helper()
		text, err := rows(soon(t), conn, sql)
		require.NoError(t, err, sql)
		return text
	}
}

// ownSchema creates a schema of the test's own, as newSchema names it.
func ownSchema(t *testing.T) (name string, query func(sql string) string) {
	t.Helper()
	name, query = newSchema(t)
	query(schemaSQL(t, name))
	return name, query
}

// dataSchema is ownSchema with a table for the data of leaders.
func dataSchema(t *testing.T) (name string, query func(sql string) string) {
	t.Helper()
	name, query = ownSchema(t)
	query("CREATE TABLE data (key text PRIMARY KEY, value text)")
	return name, query
}

func schemaSQL(t testing.TB, name string) string {
	t.Helper()
	sql, err := postgres.Schema(name)
	require.NoError(t, err)
	return sql
}

// dsn returns the URL of a schema of the shared server.
func dsn(t *testing.T, schema string) string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&search_path=%s", testserver.PostgresUser, sharedServer(t).Addrs()[0], schema)
}

// dial connects to a schema of the shared server.
func dial(t *testing.T, schema string) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(soon(t), dsn(t, schema))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// connect is dial by the client of a program, over a network.
func connect(t *testing.T, schema string, network func(context.Context, string, string) (net.Conn, error)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn(t, schema))
	require.NoError(t, err)
	if network != nil {
		config.DialFunc = network
	}
	db, err := pgx.ConnectConfig(soon(t), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = db.PgConn().Conn().Close()
		_ = db.Close(context.Background())
		<-db.PgConn().CleanupDone()
	})
	return db
}

// rows runs SQL, in one transaction.
func rows(ctx context.Context, conn *pgconn.PgConn, sql string) (string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	var lines []string
	for _, r := range results {
		for _, row := range r.Rows {
			lines = append(lines, string(bytes.Join(row, []byte("|"))))
		}
	}
	return strings.Join(lines, "\n"), err
}

// code returns the SQLSTATE of an error.
func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// inVain repeats a call that can't succeed and that its context ends, until its error says why: a busy machine might need
// more than one. It returns the error.
func inVain(t *testing.T, call func(ctx context.Context) error, is error, reason string) (err error) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the last error: %v", err)
		}
	}()
	eventually(t, func() bool {
		err = call(within(t, ttl))
		require.Error(t, err)
		return errors.Is(err, is) && strings.Contains(err.Error(), reason)
	}, "an error that is %v and says %q", is, reason)
	return err
}

// requireLeader waits until a store has been told that an election has a leader with this value.
func requireLeader(t testing.TB, st store.Store, election, value string) store.Leader {
	t.Helper()
	for leader, last := (store.Leader{}), (*store.Leader)(nil); ; last = &leader {
		var err error
		leader, err = storetest.Leader(soon(t), st, election, last)
		if errors.Is(err, store.ErrUnavailable) {
			continue
		}
		require.NoError(t, err)
		if leader.Value == value {
			return leader
		}
	}
}

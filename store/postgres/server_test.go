package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// Each setting that the driver needs is the driver's, also if an operator has set another one for the role. What the
// operator has set for commits stays if they wait for a standby.
func TestSettings(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	schema, query := ownSchema(t)
	query("CREATE ROLE other LOGIN SUPERUSER")
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
		query("ALTER ROLE other RESET ALL; ALTER ROLE other SET " + c.name + " = '" + c.operators + "'")
		d, err := postgres.NewDriver(postgres.Config{Addresses: server.Addrs(), User: "other", Database: "postgres", Schema: schema, TTL: 20 * time.Second})
		require.NoError(t, err)
		value, err := postgres.Setting(soon(t), d, c.name)
		require.NoError(t, err)
		require.Equal(t, c.drivers, value, "%s, which is %s for the role", c.name, c.operators)
		require.NoError(t, d.Close())
	}
}

// Candidates whose roles have different settings stand at the same moment. One of them creates the schema although
// transactions are read-only unless a program asks for others. The settings change no value.
func TestOperatorsDefaults(t *testing.T) {
	t.Parallel()
	schema, query := newSchema(t)
	var stores []*postgres.Store
	for i, setting := range []string{
		"default_transaction_read_only = on",
		"default_transaction_isolation = 'repeatable read'",
		"default_transaction_isolation = 'serializable'",
		"default_transaction_deferrable = on",
		"synchronous_commit = off",
		"lock_timeout = '1ms'",
		"idle_session_timeout = '200ms'",
		"client_encoding = 'LATIN1'",
		"search_path = ''",
		"client_min_messages = 'debug5'",
		"client_min_messages = 'error'",
		"bytea_output = 'escape'",
	} {
		role := fmt.Sprint("operators_", i)
		query("CREATE ROLE " + role + " LOGIN SUPERUSER; ALTER ROLE " + role + " SET " + setting)
		st := open(t, postgres.Config{Schema: schema, User: role})
		b := castFirst(t, st, setting, "mit ü")
		acknowledge(t, b, "\\x00 \x00\xff ü")
		requireLeader(t, st, setting, "\\x00 \x00\xff ü")
		stores = append(stores, st)
	}
	for range 2 {
		atOnce(t, stores, 24)
	}
}

// The variables of PostgreSQL's own tools change nothing.
func TestEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"PGHOST": "192.0.2.1", "PGREQUIREAUTH": "scram-sha-256", "PGCHANNELBINDING": "require", "PGMINPROTOCOLVERSION": "3.2",
		"PGMAXPROTOCOLVERSION": "latest", "PGOPTIONS": "-c no_such_setting=x", "PGSSLMODE": "verify-full", "PGTARGETSESSIONATTRS": "standby",
		"PGSSLCERTMODE": "require", "PGSSLNEGOTIATION": "direct",
	} {
		t.Setenv(name, value)
	}
	castFirst(t, open(t, postgres.Config{}), newElection(), "own")
}

// The first server of the list answers, and does not have the database.
func TestServerWithoutDatabase(t *testing.T) {
	t.Parallel()
	without, with := sharedServer(t), sharedWithoutVacuum(t)
	with.Query(t, "CREATE DATABASE elections")
	castFirst(t, open(t, postgres.Config{Addresses: append(without.Addrs(), with.Addrs()...), Database: "elections"}), "a", "own")
	_, err := open(t, postgres.Config{Addresses: without.Addrs(), Database: "elections"}).Cast(soon(t), "a", "own")
	require.ErrorContains(t, err, `database "elections" does not exist (SQLSTATE 3D000): create the database`)
	require.NotErrorIs(t, err, store.ErrUnavailable)

	// The server that is out of reach might have it.
	partly := open(t, postgres.Config{Addresses: append(without.Addrs(), "127.0.0.1:1"), Database: "elections"})
	inVain(t, func(ctx context.Context) error { return second(partly.Cast(ctx, "a", "own")) }, store.ErrUnavailable, "")
}

// Connections by TLS, to one server with a certificate alone, and to another one also with a password.
func TestTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{TLS: testserver.MutualTLS})
	other := testserver.NewPostgres(t, testserver.PostgresConfig{TLS: testserver.MutualTLS, SCRAM: true})
	at := func(s *testserver.Postgres, password string, changes ...string) string { // name and value in turn
		options := url.Values{"ttl": {"20s"}, "cacert": {s.CACert}, "cert": {s.ClientCert}, "key": {s.ClientKey}}
		for i := 0; i < len(changes); i += 2 {
			if options.Set(changes[i], changes[i+1]); changes[i+1] == "" {
				options.Del(changes[i])
			}
		}
		return "postgres+tls://" + testserver.ClientName + password + "@" + s.Addrs()[0] + "/postgres?" + options.Encode()
	}
	plain := testserver.PostgresUser + "@" + sharedServer(t).Addrs()[0] + "/postgres?ttl=20s"
	// The connection can't be made, ever: the error says why.
	for name, c := range map[string]struct {
		url, reason string
		is          error
	}{
		"another authority":        {at(srv, "", "cacert", other.CACert), "certificate signed by unknown authority", store.ErrUnavailable},
		"another name":             {at(srv, "", "servername", "other.example"), "other.example", store.ErrUnavailable},
		"a stranger's certificate": {at(srv, "", "cert", other.ClientCert, "key", other.ClientKey), "127.0.0.1", store.ErrUnavailable}, // reset, or told
		"no certificate":           {at(srv, "", "cert", "", "key", ""), "certificate", store.ErrDenied},
		"no TLS":                   {"postgres://" + testserver.ClientName + "@" + srv.Addrs()[0] + "/postgres?ttl=20s", "postgres+tls", store.ErrDenied},
		"TLS where there is none":  {"postgres+tls://" + plain, "the scheme has to be postgres", store.ErrUnavailable},
		"a wrong password":         {at(other, ":"+secret), "password", store.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := storetest.OpenURL(t, c.url)
			err := inVain(t, func(ctx context.Context) error { return second(st.Cast(ctx, newElection(), "own")) }, c.is, c.reason)
			require.NotContains(t, err.Error(), secret)
		})
	}
	t.Run("a whole election", func(t *testing.T) {
		t.Parallel()
		election := newElection()
		first, second := castFirst(t, storetest.OpenURL(t, at(srv, "")), election, "1"), cast(t, storetest.OpenURL(t, at(srv, "")), election, "2")
		acknowledge(t, first, "1")
		storetest.Waiting(t, second)
		require.NoError(t, first.Withdraw(soon(t)))
		require.NoError(t, second.Wait(soon(t)))
		acknowledge(t, second, "2")
		for range 3 { // waits for notifications are cut short meanwhile
			renewed(t, second)
		}
		require.NoError(t, second.Err())
	})
	// A candidate leads and keeps leading at round trips of an eighth of the TTL, although a new connection takes seven.
	t.Run("a slow link with a password", func(t *testing.T) {
		t.Parallel()
		const ttl = 6 * time.Second
		network := conformance.NewNetwork()
		network.Delay(ttl / 16)
		u, err := store.ParseURL(at(other, ":"+testserver.PostgresPassword, "ttl", ttl.String()))
		require.NoError(t, err)
		u.Dial = network.Dial
		st, err := store.OpenURL(soon(t), u)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		b := castFirst(t, st, newElection(), "own")
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); renewed(t, b) {
			require.NoError(t, b.Err())
			require.True(t, st.(interface{ Worked() bool }).Worked())
		}
	})
}

// Through PgBouncer in the mode session candidates lead and followers are told.
func TestPgbouncerSession(t *testing.T) {
	t.Parallel()
	schema, _ := newSchema(t)
	bouncer := testserver.NewPgbouncer(t, sharedServer(t), testserver.SessionPooling)
	config := postgres.Config{Addresses: bouncer.Addrs(), Schema: schema}
	list := three(t, config)
	leader := leaderAmong(t, list...)
	requireLeader(t, open(t, config), "a", leader.Value)
	leader.End()
	requireLeader(t, open(t, postgres.Config{Schema: schema}), "a", leaderAmong(t, list...).Value)
}

// PgBouncer hands on connections on which another process has prepared its statement.
func TestPgbouncerWithoutReset(t *testing.T) {
	t.Parallel()
	schema, _ := newSchema(t)
	bouncer := testserver.NewPgbouncer(t, sharedServer(t), testserver.SessionPoolingWithoutReset)
	config := postgres.Config{Addresses: bouncer.Addrs(), Schema: schema}
	acknowledge(t, castFirst(t, open(t, config), "a", "own"), "own")
	for range 10 {
		st := open(t, config)
		requireLeader(t, st, "a", "own")
		require.NoError(t, st.Close())
	}
}

// Through PgBouncer in the mode transaction candidates and followers are refused, in words that help.
func TestPgbouncerTransaction(t *testing.T) {
	t.Parallel()
	schema, _ := ownSchema(t)
	bouncer := testserver.NewPgbouncer(t, sharedServer(t), testserver.TransactionPooling)
	config := postgres.Config{Addresses: bouncer.Addrs(), Schema: schema}
	errs := make(chan error, 3)
	for _, call := range []func(st *postgres.Store) error{
		func(st *postgres.Store) error { return second(st.Cast(soon(t), "a", "own")) },
		func(st *postgres.Store) error { return second(storetest.Leader(soon(t), st, "a", nil)) },
		func(st *postgres.Store) error { return second(st.Ballots(soon(t), "a")) },
	} {
		st := open(t, config)
		go func() { errs <- call(st) }()
	}
	for range cap(errs) {
		err := receive(t, errs, "a refusal")
		requireInvalid(t, err, "addresses", "pooler", "mode session")
		require.True(t, store.Permanent(err))
	}
}

// The replies to the connection that listens are lost before the first notification comes. This is no pooler: the store
// connects again.
func TestFirstNotificationIsLost(t *testing.T) {
	t.Parallel()
	schema, _ := newSchema(t)
	network := conformance.NewNetwork()
	var dials atomic.Int64
	st := open(t, postgres.Config{Schema: schema, TTL: ttl, Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
		if dials.Add(1) == 1 { // it listens
			return network.Dial(ctx, kind, address)
		}
		network.LoseReplies() // it notifies
		return (&net.Dialer{}).DialContext(ctx, kind, address)
	}})
	castFirst(t, st, newElection(), "own")
}

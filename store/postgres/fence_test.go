package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// Writes of leaders to the database that elects them.
func TestFence(t *testing.T) {
	t.Parallel()
	t.Run("WritesAreFenced", func(t *testing.T) { fenced(t).WritesAreFenced(t) })
	t.Run("LateWritesAreRefused", func(t *testing.T) { fenced(t).LateWritesAreRefused(t) })
}

// dataServer starts a server with a table for the data of leaders.
func dataServer(t *testing.T) *testserver.Postgres {
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	srv.Query(t, "CREATE TABLE data (key text PRIMARY KEY, value text)")
	return srv
}

func dsn(srv *testserver.Postgres) string {
	return "postgres://" + testserver.PostgresUser + "@" + srv.Addrs()[0] + "/postgres?sslmode=disable"
}

// connect opens a connection of a program's own.
func connect(t *testing.T, srv *testserver.Postgres, dial func(context.Context, string, string) (net.Conn, error)) *pgx.Conn {
	config, err := pgx.ParseConfig(dsn(srv))
	require.NoError(t, err)
	if dial != nil {
		config.DialFunc = dial
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

func fenced(t *testing.T) storetest.Fenced {
	srv, line := dataServer(t), &storetest.Line{}
	db := connect(t, srv, nil)
	late := make(chan *pgx.Conn, 101) // a connection for each write that is held on the line
	for range cap(late) {
		late <- connect(t, srv, line.Dial)
	}
	return storetest.Fenced{
		Open: func(dial func(context.Context, string, string) (net.Conn, error)) store.Store {
			return open(t, postgres.Config{Addresses: srv.Addrs(), TTL: 4 * time.Second, Dial: dial})
		},
		Place: func(election string) string { return "data of " + election },
		Write: func(ctx context.Context, b store.Ballot, key, value string) error {
			return save(ctx, db, b, key, value)
		},
		Late: func(ctx context.Context, b store.Ballot, key, value string) error {
			stands, err := postgres.Fence(b)
			if err != nil {
				return err
			}
			_, err = (<-late).PgConn().Exec(ctx, fmt.Sprintf("BEGIN; SELECT leadership.fence('%s', %d); "+
				"INSERT INTO data VALUES ('%s', '%s') ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value; COMMIT",
				stands.Args[0], stands.Args[1], key, value)).ReadAll()
			if code(err) == postgres.Gone {
				return store.ErrLost
			}
			return err
		},
		Line: line,
		Read: func(key string) (value string) {
			require.NoError(t, db.QueryRow(soon(t), "SELECT value FROM data WHERE key = $1", key).Scan(&value))
			return value
		},
		Remove: func(b store.Ballot) {
			require.NotEmpty(t, srv.Query(t, fmt.Sprintf("DELETE FROM leadership.entry WHERE token = %d RETURNING token", b.Token())))
		},
	}
}

// code returns the SQLSTATE of an error.
func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// TestFenceInEachIsolationLevel: an acknowledgement between the transaction's snapshot and the statement does not
// matter, and a ballot that was removed between fails the transaction: for good if it is begun again. database/sql is
// the client.
func TestFenceInEachIsolationLevel(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	db, err := sql.Open("pgx", dsn(srv))
	require.NoError(t, err)
	defer db.Close()
	st := open(t, postgres.Config{Addresses: srv.Addrs(), TTL: long})
	castFirst(t, st, newElection(), "another") // which stands when the other ballots have gone
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			b := castFirst(t, st, newElection(), "leader")
			stands, err := postgres.Fence(b)
			require.NoError(t, err)
			write := func(between func()) error {
				tx, err := db.BeginTx(soon(t), &sql.TxOptions{Isolation: level})
				require.NoError(t, err)
				defer tx.Rollback()
				_, err = tx.Exec("INSERT INTO data VALUES ($1, 'x') ON CONFLICT (key) DO UPDATE SET value = 'x'", t.Name()) // takes the snapshot
				require.NoError(t, err)
				between()
				if _, err = tx.Exec(stands.SQL, stands.Args...); err != nil {
					return err
				}
				return tx.Commit()
			}
			require.NoError(t, write(func() { acknowledge(t, b, "leader") }))
			err = write(func() { require.NoError(t, b.Withdraw(soon(t))) })
			require.Contains(t, []string{postgres.Gone, "40001"}, code(err))
			require.Equal(t, postgres.Gone, code(write(func() {})))
		})
	}
}

// TestFrozenInATransaction: a leader that stands still before COMMIT holds the lock that the end of its session needs.
// The server ends the transaction after a quarter of the TTL, and the write is not carried out.
func TestFrozenInATransaction(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	db := connect(t, srv, nil)
	election, network := newElection(), conformance.NewNetwork()
	old := castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), Dial: network.Dial}), election, "old")
	next := cast(t, open(t, postgres.Config{Addresses: srv.Addrs()}), election, "next")
	stands, err := postgres.Fence(old)
	require.NoError(t, err)
	tx, err := db.Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), stands.SQL, stands.Args...)
	require.NoError(t, err)
	var idle string
	require.NoError(t, tx.QueryRow(soon(t), "SHOW idle_in_transaction_session_timeout").Scan(&idle))
	require.Equal(t, (ttl / 4).String(), idle)
	_, err = tx.Exec(soon(t), "INSERT INTO data VALUES ('frozen', 'too late')")
	require.NoError(t, err)
	network.Cut()
	require.NoError(t, next.Wait(soon(t)))
	require.Error(t, tx.Commit(soon(t)), "a write was carried out after the next leader had taken over")
	require.Equal(t, "0", srv.Query(t, "SELECT count(*) FROM data"))
	network.Heal()
}

// TestFrozenInAnAnswer: a leader stands still while the server sends the rows of a query, more than the line holds.
func TestFrozenInAnAnswer(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	db := connect(t, srv, nil)
	election, network := newElection(), conformance.NewNetwork()
	old := castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), Dial: network.Dial}), election, "old")
	next := cast(t, open(t, postgres.Config{Addresses: srv.Addrs()}), election, "next")
	stands, err := postgres.Fence(old)
	require.NoError(t, err)
	tx, err := db.Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), stands.SQL, stands.Args...)
	require.NoError(t, err)
	rows, err := tx.Query(soon(t), "SELECT repeat('x', 1000000) FROM generate_series(1, 100)")
	require.NoError(t, err)
	network.Cut()
	require.NoError(t, next.Wait(soon(t)))
	rows.Close()
	require.Error(t, tx.Commit(soon(t)))
	network.Heal()
}

// TestFenceKeepsAShorterTimeout: the timeout of the role stays if it is shorter. After the transaction both timeouts
// are what they were.
func TestFenceKeepsAShorterTimeout(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	db := connect(t, srv, nil)
	b := castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), TTL: long, Schema: "elections"}), newElection(), "leader")
	stands, err := postgres.Fence(b)
	require.NoError(t, err)
	for _, c := range []struct{ before, inside, tcpBefore, tcpInside string }{
		{"0", "5s", "0", "5000"}, {"300ms", "300ms", "300", "300"}, {"2min", "5s", "120000", "5000"},
	} {
		for setting, before := range map[string]string{"idle_in_transaction_session_timeout": c.before, "tcp_user_timeout": c.tcpBefore} {
			_, err := db.Exec(soon(t), "SET "+setting+" = '"+before+"'")
			require.NoError(t, err)
		}
		show := func(q interface {
			QueryRow(context.Context, string, ...any) pgx.Row
		}, setting string) (timeout string) {
			require.NoError(t, q.QueryRow(soon(t), "SHOW "+setting).Scan(&timeout))
			return timeout
		}
		require.NoError(t, pgx.BeginFunc(soon(t), db, func(tx pgx.Tx) error {
			_, err := tx.Exec(soon(t), stands.SQL, stands.Args...)
			require.NoError(t, err)
			require.Equal(t, c.inside, show(tx, "idle_in_transaction_session_timeout"))
			require.Equal(t, c.tcpInside, show(tx, "tcp_user_timeout"))
			return nil
		}))
		require.Equal(t, c.before, show(db, "idle_in_transaction_session_timeout"))
		require.Equal(t, c.tcpBefore, show(db, "tcp_user_timeout"))
	}
}

// begin begins a leader's transaction with the fence, which the server does not end: as a statement that runs for long.
func begin(t *testing.T, srv *testserver.Postgres, b store.Ballot) pgx.Tx {
	stands, err := postgres.Fence(b)
	require.NoError(t, err)
	tx, err := connect(t, srv, nil).Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), stands.SQL, stands.Args...)
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), "SET LOCAL idle_in_transaction_session_timeout = 0")
	require.NoError(t, err)
	return tx
}

// TestFenceHoldsTheSuccessorAlone: while a leader's transaction is open, the ballot stays. It holds up no
// acknowledgement, no request to resign, and no other transaction of the leader.
func TestFenceHoldsTheSuccessorAlone(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	st, election := open(t, postgres.Config{Addresses: srv.Addrs(), TTL: long}), newElection()
	old := castFirst(t, st, election, "old")
	next := cast(t, st, election, "next")
	tx := begin(t, srv, old)
	acknowledge(t, old, "old")
	require.NoError(t, st.RequestResignation(soon(t), election, old.Token()))
	require.NoError(t, save(soon(t), connect(t, srv, nil), old, "other", "transaction"))

	withdrawn, leads := make(chan error, 1), make(chan error, 1)
	go func() { withdrawn <- old.Withdraw(context.Background()) }()
	go func() { leads <- next.Wait(context.Background()) }()
	eventually(t, func() bool {
		return len(leads) > 0 || srv.Query(t, "SELECT 1 FROM pg_stat_activity WHERE pg_blocking_pids(pid) <> '{}' LIMIT 1") == "1"
	}, "the end of the ballot waits for the transaction")
	require.Empty(t, leads, "the next leader has taken over during the transaction")
	_, err := tx.Exec(soon(t), "INSERT INTO data VALUES ('last', 'write')")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(soon(t)))
	require.NoError(t, receive(t, withdrawn, "the end of the ballot"))
	require.NoError(t, receive(t, leads, "the next leader"))
	require.Equal(t, "last\nother", srv.Query(t, "SELECT key FROM data ORDER BY key"))
}

// TestFenceIsOfTheSession: after a copy of the data was brought back, the ballot of another session might have the
// token.
func TestFenceIsOfTheSession(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	b := castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), TTL: long}), newElection(), "leader")
	other := castFirst(t, open(t, postgres.Config{Addresses: srv.Addrs(), TTL: long}), newElection(), "other")
	srv.Query(t, fmt.Sprintf("UPDATE leadership.entry SET session = o.session FROM leadership.entry o WHERE entry.token = %d AND o.token = %d",
		b.Token(), other.Token()))
	require.ErrorIs(t, save(soon(t), connect(t, srv, nil), b, "key", "value"), store.ErrLost)
}

// TestFenceHoldsNoRenewal: six leaders' transactions are open while the ballots are given back. The session is renewed
// all the same.
func TestFenceHoldsNoRenewal(t *testing.T) {
	t.Parallel()
	srv := dataServer(t)
	st := open(t, postgres.Config{Addresses: srv.Addrs()})
	free := castFirst(t, st, newElection(), "free")
	withdrawn := make(chan error, 6)
	for range cap(withdrawn) {
		b := castFirst(t, st, newElection(), "leader")
		tx := begin(t, srv, b)
		go func() { withdrawn <- b.Withdraw(context.Background()) }()
		defer func() { require.NoError(t, receive(t, withdrawn, "the end of the ballot")) }()
		defer tx.Rollback(context.Background())
	}
	for end := time.Now().Add(3 * ttl); time.Now().Before(end); time.Sleep(ttl / 20) {
		require.NoError(t, free.Err(), "the session was lost behind the transactions")
	}
}

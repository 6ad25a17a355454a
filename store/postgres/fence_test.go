package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// fenceTTL is the TTL of leaders that are cut off and have a successor then.
const fenceTTL = 6 * time.Second

// Writes of leaders to the database that elects them.
func TestFence(t *testing.T) {
	t.Parallel()
	late := 20
	if *every {
		late = 100
	}
	t.Run("WritesAreFenced", func(t *testing.T) { t.Parallel(); fenced(t, 0).WritesAreFenced(t) })
	t.Run("LateWritesAreRefused", func(t *testing.T) { t.Parallel(); fenced(t, late).LateWritesAreRefused(t) })
}

func fenced(t *testing.T, writes int) storetest.Fenced {
	schema, query := dataSchema(t)
	line, db := &storetest.Line{}, connect(t, schema, nil)
	late := make(chan *pgx.Conn, writes+1) // a connection for each write that is held on the line
	for range cap(late) {
		late <- connect(t, schema, line.Dial)
	}
	return storetest.Fenced{
		Writes: writes,
		Open: func(dial func(context.Context, string, string) (net.Conn, error)) store.Store {
			return open(t, postgres.Config{Schema: schema, TTL: fenceTTL, Dial: dial})
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
			_, err = (<-late).PgConn().Exec(ctx, fmt.Sprintf("BEGIN; SELECT fence('%s', %d); "+
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
			require.NotEmpty(t, query(fmt.Sprintf("DELETE FROM entry WHERE token = %d RETURNING token", b.Token())))
		},
	}
}

// An acknowledgement between the transaction's snapshot and the statement does not
// matter, and a ballot that was removed between fails the transaction: for good if it is begun again. database/sql is
// the client.
func TestFenceInEachIsolationLevel(t *testing.T) {
	t.Parallel()
	schema, _ := dataSchema(t)
	db, err := sql.Open("pgx", dsn(t, schema))
	require.NoError(t, err)
	defer db.Close()
	st := open(t, postgres.Config{Schema: schema})
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

// A leader that stands still before COMMIT holds the lock that the end of its session needs. The server ends the
// transaction after a quarter of the TTL, and the write is not carried out.
func TestFrozenInATransaction(t *testing.T) {
	t.Parallel()
	tx, query, takenOver := freeze(t)
	var idle string
	require.NoError(t, tx.QueryRow(soon(t), "SHOW idle_in_transaction_session_timeout").Scan(&idle))
	require.Equal(t, "1500ms", idle)
	_, err := tx.Exec(soon(t), "INSERT INTO data VALUES ('frozen', 'too late')")
	require.NoError(t, err)
	takenOver()
	require.Error(t, tx.Commit(soon(t)), "a write was carried out after the next leader had taken over")
	require.Equal(t, "0", query("SELECT count(*) FROM data"))
}

// A leader stands still while the server sends the rows of a query, more than the line holds.
func TestFrozenInAnAnswer(t *testing.T) {
	t.Parallel()
	tx, _, takenOver := freeze(t)
	rows, err := tx.Query(soon(t), "SELECT repeat('x', 1000000) FROM generate_series(1, 100)")
	require.NoError(t, err)
	takenOver()
	rows.Close()
	require.Error(t, tx.Commit(soon(t)))
}

// freeze begins a leader's transaction under the fence. takenOver cuts the leader's store off, and returns when the next
// one leads.
func freeze(t *testing.T) (tx pgx.Tx, query func(string) string, takenOver func()) {
	schema, query := dataSchema(t)
	election, network := newElection(), conformance.NewNetwork()
	t.Cleanup(network.Heal)
	old := castFirst(t, open(t, postgres.Config{Schema: schema, TTL: fenceTTL, Dial: network.Dial}), election, "old")
	next := cast(t, open(t, postgres.Config{Schema: schema, TTL: fenceTTL}), election, "next")
	return begin(t, schema, old), query, func() {
		network.Cut()
		require.NoError(t, next.Wait(soon(t)))
	}
}

// begin begins a leader's transaction under the fence, on a connection of its own.
func begin(t *testing.T, schema string, b store.Ballot) pgx.Tx {
	t.Helper()
	stands, err := postgres.Fence(b)
	require.NoError(t, err)
	tx, err := connect(t, schema, nil).Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), stands.SQL, stands.Args...)
	require.NoError(t, err)
	return tx
}

// The timeout of the role stays if it is shorter. After the transaction both timeouts
// are what they were.
func TestFenceKeepsAShorterTimeout(t *testing.T) {
	t.Parallel()
	schema, _ := dataSchema(t)
	db := connect(t, schema, nil)
	b := castFirst(t, open(t, postgres.Config{Schema: schema}), newElection(), "leader")
	stands, err := postgres.Fence(b)
	require.NoError(t, err)
	for _, c := range []struct{ before, inside, tcpBefore, tcpInside string }{
		{"0", "10s", "0", "10000"}, {"300ms", "300ms", "300", "300"}, {"2min", "10s", "120000", "10000"},
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

// While a leader's transaction is open, the ballot stays. It holds up no acknowledgement, no request to resign, no other
// transaction of the leader, and no renewal, also when the ballot is being given back.
func TestFenceHoldsTheSuccessorAlone(t *testing.T) {
	t.Parallel()
	schema, query := dataSchema(t)
	st, election := open(t, postgres.Config{Schema: schema}), newElection()
	old := castFirst(t, st, election, "old")
	next := cast(t, st, election, "next")
	tx := begin(t, schema, old)
	_, err := tx.Exec(soon(t), "SET LOCAL idle_in_transaction_session_timeout = 0") // as a statement that runs for long
	require.NoError(t, err)
	acknowledge(t, old, "old")
	require.NoError(t, st.RequestResignation(soon(t), election, old.Token()))
	require.NoError(t, save(soon(t), connect(t, schema, nil), old, "other", "transaction"))

	withdrawn, leads := make(chan error, 1), make(chan error, 1)
	go func() { withdrawn <- old.Withdraw(context.Background()) }()
	go func() { leads <- next.Wait(context.Background()) }()
	waits := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))", tx.Conn().PgConn().PID())
	eventually(t, func() bool { return len(leads) > 0 || query(waits) == "1" }, "the end of the ballot waits for the transaction")
	renewed(t, next)
	require.Empty(t, leads, "the next leader has taken over during the transaction")
	_, err = tx.Exec(soon(t), "INSERT INTO data VALUES ('last', 'write')")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(soon(t)))
	require.NoError(t, receive(t, withdrawn, "the end of the ballot"))
	require.NoError(t, receive(t, leads, "the next leader"))
	require.Equal(t, "last\nother", query("SELECT key FROM data ORDER BY key"))
}

// After a copy of the data was brought back, the ballot of another session might have the
// token.
func TestFenceIsOfTheSession(t *testing.T) {
	t.Parallel()
	schema, query := dataSchema(t)
	b := castFirst(t, open(t, postgres.Config{Schema: schema}), newElection(), "leader")
	other := castFirst(t, open(t, postgres.Config{Schema: schema}), newElection(), "other")
	query(fmt.Sprintf("UPDATE entry SET session = o.session FROM entry o WHERE entry.token = %d AND o.token = %d",
		b.Token(), other.Token()))
	require.ErrorIs(t, save(soon(t), connect(t, schema, nil), b, "key", "value"), store.ErrLost)
}

// What an acknowledgement that comes during another transaction waits for, and its outcome.
func TestAcknowledgeBesideATransaction(t *testing.T) {
	t.Parallel()
	for other, c := range map[string]struct {
		sql     string
		waits   bool
		outcome string
	}{
		"the end of the session":        {"DELETE FROM session WHERE id = '%s' AND %d > 0", true, "over"},
		"the end of the ballot":         {"DELETE FROM entry WHERE session = '%s' AND token = %d", true, "gone"},
		"a later acknowledgement":       {"SELECT acknowledge('%s', %d, 100, 'later')", true, "late"},
		"a transaction under the fence": {"SELECT fence('%s', %d)", false, "done"},
	} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			schema, query := ownSchema(t)
			b := castFirst(t, open(t, postgres.Config{Schema: schema}), newElection(), "leader")
			stands, err := postgres.Fence(b)
			require.NoError(t, err)
			db, outcome := connect(t, schema, nil), make(chan string, 1)
			tx, err := connect(t, schema, nil).Begin(soon(t))
			require.NoError(t, err)
			_, err = tx.Exec(soon(t), fmt.Sprintf(c.sql, stands.Args...))
			require.NoError(t, err)
			go func() {
				var said string
				_ = db.QueryRow(soon(t), "SELECT outcome FROM acknowledge($1, $2, 99, '')", stands.Args...).Scan(&said)
				outcome <- said
			}()
			waits := fmt.Sprintf("SELECT %d = ANY (pg_blocking_pids(%d))", tx.Conn().PgConn().PID(), db.PgConn().PID())
			eventually(t, func() bool { return len(outcome) > 0 || query(waits) == "t" }, "the acknowledgement waits or is answered")
			require.Equal(t, c.waits, len(outcome) == 0)
			require.NoError(t, tx.Commit(soon(t)))
			require.Equal(t, c.outcome, receive(t, outcome, "the answer"))
		})
	}
}

package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// two are two connections: a transaction of the first is open while the second runs a statement, which needs what the
// first has locked.
type two struct {
	t             *testing.T
	query         func(sql string) string
	first, second *pgconn.PgConn
}

func newTwo(t *testing.T) two {
	name, query := ownSchema(t)
	query("SELECT open('a', 3000, 7), open('b', 3000, 7)")
	return two{t, query, dial(t, name), dial(t, name)}
}

// run runs a statement in a transaction of the first connection, and one on the second meanwhile. It commits when the
// second waits for the first, and returns what the second has returned.
func (w two) run(first, second string) string {
	w.t.Helper()
	_, err := rows(soon(w.t), w.first, "BEGIN; "+first)
	require.NoError(w.t, err)
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	ctx := soon(w.t)
	go func() {
		text, err := rows(ctx, w.second, second)
		answered <- answer{text, err}
	}()
	waits := fmt.Sprintf("SELECT %d = ANY (pg_blocking_pids(%d))", w.first.PID(), w.second.PID())
	eventually(w.t, func() bool { return len(answered) > 0 || w.query(waits) == "t" }, "the second statement waits")
	_, err = rows(soon(w.t), w.first, "COMMIT")
	require.NoError(w.t, err)
	a := receive(w.t, answered, "the second answer")
	require.NoError(w.t, a.err)
	return a.text
}

// The rule of enter's lock: an entry that becomes visible after another of its election has a higher token, and knows
// of it.
func TestEnterWaitsForEnter(t *testing.T) {
	t.Parallel()
	w := newTwo(t)
	nearest := w.run("SELECT enter('a', 'x', 'n1', 0, 1, 'v')", "SELECT nearest FROM enter('b', 'x', 'n2', 0, 1, 'v')")
	require.Equal(t, "1", nearest, "two are first")
	nearest = w.run("SELECT enter('a', 'y', 'n3', 1, 1, 'v')", "SELECT nearest FROM enter('a', 'y', 'n3', 1, 1, 'v')")
	require.Empty(t, nearest, "it is the same entry")
	require.Equal(t, "1", w.query("SELECT count(*) FROM entry WHERE nonce = 'n3'"))
}

// What is ahead is read after the lock was taken, and not from an earlier snapshot. Another isolation level is refused.
func TestIsolation(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	query("SELECT open('a', 3000, 1)")
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		conn := dial(t, name)
		_, err := rows(soon(t), conn, "BEGIN ISOLATION LEVEL "+level+"; SELECT enter('a', 'x', 'n', 0, 1, 'v')")
		require.ErrorContains(t, err, "read committed", level)
	}
	require.Equal(t, "0", query("SELECT count(*) FROM entry"))
}

// The rule of void's lock: a request for an entry comes before, and its entry is removed, or it makes none.
func TestEnterAndVoid(t *testing.T) {
	t.Parallel()
	w := newTwo(t)
	require.Equal(t, "done", w.run("SELECT enter('a', 'x', 'n1', 0, 1, 'v')", "SELECT void('a', 'x', 'n1', 0, 1)"))
	require.Equal(t, "0", w.query("SELECT count(*) FROM entry"))
	require.Equal(t, "void", w.run("SELECT void('a', 'x', 'n2', 0, 2)", "SELECT outcome FROM enter('a', 'x', 'n2', 0, 2, 'v')"))
	require.Equal(t, "0", w.query("SELECT count(*) FROM entry"))
}

// The rule of acknowledge's lock: of two at the same time the later one counts.
func TestAcknowledgeTwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := newTwo(t)
	w.query("SELECT enter('a', 'x', 'n1', 0, 1, 'v')")
	require.Equal(t, "late", w.run("SELECT acknowledge('a', 1, 2, 'second')", "SELECT outcome FROM acknowledge('a', 1, 1, 'first')"))
	require.Equal(t, "second", w.query("SELECT convert_from(value, 'UTF8') FROM leader"))
}

// A session is ended at the moment: a change of it answers that it is over. The mark 7 is shown as 6, with the epoch 1.
func TestSessionEndsMeanwhile(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		"outcome FROM enter('a', 'x', 'n2', 0, 2, 'v')", "void('a', 'x', 'n2', 0, 2)", "outcome FROM acknowledge('a', 1, 1, 'v')",
	} {
		w := newTwo(t)
		w.query("SELECT enter('a', 'x', 'n1', 0, 1, 'v')")
		require.Equal(t, "over", w.run("SELECT expire('a', 6)", "SELECT "+call), call)
	}
}

// A session is renewed at the moment: a peer that has seen the mark before does not end it.
func TestRenewedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newTwo(t)
	require.Equal(t, "f", w.run("SELECT renew('a', 8)", "SELECT expire('a', 6)"))
}

// Candidates create the schema at the same moment.
func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	name := strings.ReplaceAll(newElection(), " ", "_")
	sql := schemaSQL(t, name)
	var conns []*pgconn.PgConn
	for range 8 {
		conns = append(conns, dial(t, name))
	}
	ctx := soon(t)
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Go(func() {
			if _, err := rows(ctx, conn, sql); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := rows(ctx, conns[0], "SELECT count(*) FROM service")
	require.NoError(t, err)
	require.Equal(t, "1", text)
}

package postgres_test

import (
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestAcknowledgeBesideATransaction: what an acknowledgement that comes during another transaction waits for, and its
// outcome.
func TestAcknowledgeBesideATransaction(t *testing.T) {
	t.Parallel()
	for other, c := range map[string]struct {
		sql     string
		waits   bool
		outcome string
	}{
		"the end of the session":        {"DELETE FROM leadership.session WHERE id = '%s' AND %d > 0", true, "over"},
		"the end of the ballot":         {"DELETE FROM leadership.entry WHERE session = '%s' AND token = %d", true, "gone"},
		"a later acknowledgement":       {"SELECT leadership.acknowledge('%s', %d, 100, 'later')", true, "late"},
		"a transaction under the fence": {"SELECT leadership.fence('%s', %d)", false, "done"},
	} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			srv := sharedServer(t)
			b := castFirst(t, open(t, postgres.Config{TTL: long}), newElection(), "leader")
			stands, err := postgres.Fence(b)
			require.NoError(t, err)
			db, outcome := connect(t, srv, nil), make(chan string, 1)
			tx, err := connect(t, srv, nil).Begin(soon(t))
			require.NoError(t, err)
			_, err = tx.Exec(soon(t), fmt.Sprintf(c.sql, stands.Args...))
			require.NoError(t, err)
			go func() {
				var said string
				_ = db.QueryRow(soon(t), "SELECT outcome FROM leadership.acknowledge($1, $2, 99, '')", stands.Args...).Scan(&said)
				outcome <- said
			}()
			waits := fmt.Sprintf("SELECT pg_blocking_pids(%d) <> '{}'", db.PgConn().PID())
			eventually(t, func() bool { return len(outcome) > 0 || srv.Query(t, waits) == "t" }, "the acknowledgement waits or is answered")
			require.Equal(t, c.waits, len(outcome) == 0)
			require.NoError(t, tx.Commit(soon(t)))
			require.Equal(t, c.outcome, receive(t, outcome, "the answer"))
		})
	}
}

package sqltest

import (
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/fence"
	"github.com/stretchr/testify/require"
)

// limits are the settings that docs/sql-fence.md names, as the drivers take them in the URL of a connection. On SQLite the tests
// do not wait for a lock.
var limits = map[string]struct{ leader, raise string }{
	"PostgreSQL": {" idle_in_transaction_session_timeout=2s", " lock_timeout=100ms"},
	"MariaDB":    {"?idle_transaction_timeout=2", "?innodb_lock_wait_timeout=1"},
}

// A leader that is frozen between the check and the commit delays the raise. A limit for the raise ends that, and is not
// reported as superseded; or a limit for the leader's session: then the commit of the frozen one fails.
func TestFrozenLeader(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		limit := limits[s.name]
		frozen := func(db *sql.DB, token uint64) *sql.Tx {
			require.NoError(t, s.fence.Raise(t.Context(), election, token))
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, s.write(t.Context(), tx))
			require.NoError(t, s.fence.Check(t.Context(), tx, election, token))
			return tx
		}

		tx := frozen(s.db, 1)
		defer func() { _ = tx.Rollback() }()
		err := s.through(t, s.connect(t, s.url+limit.raise)).Raise(t.Context(), election, 2)
		require.Error(t, err)
		require.NotErrorIs(t, err, fence.ErrSuperseded)
		require.NoError(t, tx.Commit())
		require.Equal(t, 1, s.writes(t))

		if limit.leader == "" {
			return // SQLite: a frozen process holds the file's lock until it is killed
		}
		tx = frozen(s.connect(t, s.url+limit.leader), 3)
		defer func() { _ = tx.Rollback() }()
		require.NoError(t, s.fence.Raise(t.Context(), election, 4), "until the server has ended the leader's session")
		require.Error(t, tx.Commit())
		require.Equal(t, 1, s.writes(t))
	})
}

// A conflict that a new transaction would not have is not reported as superseded: the next attempt is. InnoDB's locks see
// the newest row, so there the first attempt is, too.
func TestConflict(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		w := s.writer(t, election, 1)
		options := &sql.TxOptions{Isolation: s.levels[len(s.levels)/2]}
		err := s.fence.Tx(t.Context(), w, options, func(tx *sql.Tx) error {
			if err := row("")(t.Context(), s, tx); err != nil {
				return err
			}
			require.NoError(t, s.fence.Raise(t.Context(), election, 2))
			return s.write(t.Context(), tx)
		})
		require.Error(t, err)
		require.Equal(t, s.dialect == fence.MySQL, errors.Is(err, fence.ErrSuperseded), err)
		require.ErrorIs(t, s.tx(t, w), fence.ErrSuperseded)
		require.Zero(t, s.writes(t))
	})
}

// Candidates that raise at the same time, the first of all too, end with the highest token.
func TestRaisesAtTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		const highest = 16
		var raises sync.WaitGroup
		for token := uint64(1); token <= highest; token++ {
			raises.Go(func() {
				err := s.fence.Raise(t.Context(), election, token)
				for err != nil && !errors.Is(err, fence.ErrSuperseded) { // SQLITE_BUSY, or a deadlock in MariaDB
					err = s.fence.Raise(t.Context(), election, token)
				}
				if token == highest && err != nil {
					t.Error(err)
				}
			})
		}
		raises.Wait()
		require.Equal(t, highest, s.count(t, "SELECT token FROM "+s.table))
	})
}

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/fence"
	"github.com/stretchr/testify/require"
)

// term is a term of an election.
type term struct {
	election string
	token    uint64
}

func (t term) Election() string { return t.election }
func (t term) Token() uint64    { return t.token }

// tx writes a row under the fence.
func (s *scene) tx(t *testing.T, w *fence.Leader) error {
	return s.fence.Tx(t.Context(), w, nil, func(tx *sql.Tx) error { return s.write(t.Context(), tx) })
}

func (s *scene) writer(t *testing.T, election string, token uint64) *fence.Leader {
	w, err := s.fence.Leader(t.Context(), term{election, token})
	require.NoError(t, err)
	return w
}

// The next leader's raise ends the last one's writes.
func TestTakeover(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		old := s.writer(t, election, 7)
		require.NoError(t, s.tx(t, old))
		next := s.writer(t, election, 9)
		require.ErrorIs(t, s.tx(t, old), fence.ErrSuperseded)
		require.NoError(t, s.tx(t, next))
		require.Equal(t, 2, s.writes(t))

		_, err := s.fence.Leader(t.Context(), term{election, 8})
		require.ErrorIs(t, err, fence.ErrSuperseded)
		require.NoError(t, s.tx(t, next), "a refused raise changes nothing")
	})
}

// A raise whose answer was lost is sent again, and one that arrives late is refused.
func TestRaiseAgain(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		w := s.writer(t, election, 7)
		require.NoError(t, s.fence.Raise(t.Context(), election, 7))
		require.NoError(t, s.fence.Raise(t.Context(), election, 7))
		require.NoError(t, s.tx(t, w))
		require.NoError(t, s.fence.Raise(t.Context(), election, 8))
		require.ErrorIs(t, s.fence.Raise(t.Context(), election, 7), fence.ErrSuperseded)
	})
}

// A leader that has not raised is refused, also with a token higher than the row's, and so is a zero Leader.
func TestWriteBeforeTheRaise(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		try := func(token uint64) error {
			tx, err := s.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			return s.fence.Check(t.Context(), tx, election, token)
		}
		require.ErrorIs(t, try(7), fence.ErrSuperseded)
		require.NoError(t, s.fence.Raise(t.Context(), election, 7))
		require.NoError(t, try(7))
		require.ErrorIs(t, try(8), fence.ErrSuperseded)
		require.Error(t, s.tx(t, &fence.Leader{}))
		require.Zero(t, s.writes(t))
	})
}

// Elections of one table do not touch each other, also if their names differ in case or in a trailing space.
func TestElectionsOfOneTable(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		names := []string{"jobs", "Jobs", "jobs ", "jöbs", "jo\xcc\x88bs", strings.Repeat("x", 199), strings.Repeat("x", 200)}
		var writers []*fence.Leader
		for i, name := range names {
			writers = append(writers, s.writer(t, name, uint64(100-i)))
		}
		for _, w := range writers {
			require.NoError(t, s.tx(t, w))
		}
		require.Equal(t, len(names), s.count(t, "SELECT count(*) FROM "+s.table))
	})
}

// The largest token that the column holds is good; others, and bad names, are refused before anything is sent.
func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		require.NoError(t, s.tx(t, s.writer(t, election, math.MaxInt64)))
		tx, err := s.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		require.NoError(t, s.db.Close()) // what is sent now fails with another error
		for _, token := range []uint64{0, math.MaxInt64 + 1, math.MaxUint64} {
			require.ErrorContains(t, s.fence.Raise(t.Context(), election, token), "is not between 1 and")
			require.ErrorContains(t, s.fence.Check(t.Context(), tx, election, token), "is not between 1 and")
			_, err := s.fence.Leader(t.Context(), term{election, token})
			require.ErrorContains(t, err, "is not between 1 and")
		}
		for _, name := range []string{"", strings.Repeat("x", 201)} {
			require.ErrorContains(t, s.fence.Raise(t.Context(), name, 1), "1 to 200 bytes")
			require.ErrorContains(t, s.fence.Check(t.Context(), tx, name, 1), "1 to 200 bytes")
		}
	})
}

// After a reset nothing is written until the next raise, which may be lower.
func TestReset(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		w := s.writer(t, election, 1000)
		other := s.writer(t, "other", 1000)
		require.NoError(t, s.fence.Reset(t.Context(), election))
		require.NoError(t, s.fence.Reset(t.Context(), election))
		require.ErrorIs(t, s.tx(t, w), fence.ErrSuperseded)
		require.NoError(t, s.tx(t, s.writer(t, election, 3)))
		require.NoError(t, s.tx(t, other))
	})
}

// Tx rolls back if do fails, panics, or if the context ends.
func TestRollback(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		w := s.writer(t, election, 7)
		wrong := errors.New("wrong")
		require.ErrorIs(t, s.fence.Tx(t.Context(), w, nil, func(tx *sql.Tx) error {
			return errors.Join(s.write(t.Context(), tx), wrong)
		}), wrong)
		require.Panics(t, func() {
			_ = s.fence.Tx(t.Context(), w, nil, func(tx *sql.Tx) error {
				require.NoError(t, s.write(t.Context(), tx))
				panic(wrong)
			})
		})
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, s.fence.Tx(ctx, w, nil, func(tx *sql.Tx) error {
			defer cancel()
			return s.write(ctx, tx)
		}), context.Canceled)
		require.Zero(t, s.writes(t))
		require.Eventually(t, func() bool { // database/sql rolls back in the background if the context ends
			return s.fence.Raise(t.Context(), election, 8) == nil
		}, watchdog, time.Millisecond, "a lock is left")
	})
}

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

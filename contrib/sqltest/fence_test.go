package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/fence"
	"github.com/stretchr/testify/require"
)

type term uint64

func (t term) Token() uint64 { return uint64(t) }

// tx writes a row under the fence.
func (s *scene) tx(t *testing.T, w *fence.Writer) error {
	return s.fence.Tx(t.Context(), w, nil, func(tx *sql.Tx) error { return s.write(t.Context(), tx) })
}

func (s *scene) writer(t *testing.T, election string, token uint64) *fence.Writer {
	w, err := s.fence.Writer(t.Context(), election, term(token))
	require.NoError(t, err)
	return w
}

// The next leader's Writer ends the last one's writes.
func TestTakeover(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		old := s.writer(t, election, 7)
		require.NoError(t, s.tx(t, old))
		next := s.writer(t, election, 9)
		require.ErrorIs(t, s.tx(t, old), fence.ErrSuperseded)
		require.NoError(t, s.tx(t, next))
		require.Equal(t, 2, s.writes(t))

		_, err := s.fence.Writer(t.Context(), election, term(8))
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

// A leader that has not raised is refused, also with a token higher than the row's, and so is a zero Writer.
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
		require.Error(t, s.tx(t, &fence.Writer{}))
		require.Zero(t, s.writes(t))
	})
}

// Elections of one table do not touch each other, also if their names differ in case or in a trailing space.
func TestElectionsOfOneTable(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		names := []string{"jobs", "Jobs", "jobs ", "jöbs", "jo\xcc\x88bs", strings.Repeat("x", 199), strings.Repeat("x", 200)}
		var writers []*fence.Writer
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
			_, err := s.fence.Writer(t.Context(), election, term(token))
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
		}, time.Minute, time.Millisecond, "a lock is left")
	})
}

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// BenchmarkFence measures a leader's transaction of one INSERT, from BEGIN until COMMIT is answered: alone, with a statement
// that does nothing, and with postgres.Fence.
func BenchmarkFence(b *testing.B) {
	s := newServer(b)
	p, err := openOurs(b.Context(), s.url(candidate, s.address()), usual)
	require.NoError(b, err)
	b.Cleanup(p.close)
	ballot, err := p.(*ourProcess).store.Cast(b.Context(), "fence", "leader")
	require.NoError(b, err)
	require.NoError(b, ballot.Wait(b.Context()))
	stands, err := postgres.Fence(ballot)
	require.NoError(b, err)
	s.exec(b, "CREATE TABLE data (key bigserial PRIMARY KEY, value text)")
	db, err := pgx.Connect(b.Context(), s.url(observer, s.address()))
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close(context.Background()) })
	transaction := func(first string, args ...any) *series {
		return &series{measure: func(b *testing.B) time.Duration {
			start := time.Now()
			require.NoError(b, pgx.BeginFunc(b.Context(), db, func(tx pgx.Tx) error {
				if first != "" {
					if _, err := tx.Exec(b.Context(), first, args...); err != nil {
						return err
					}
				}
				_, err := tx.Exec(b.Context(), "INSERT INTO data (value) VALUES ('written')")
				return err
			}))
			return time.Since(start)
		}}
	}
	alone, nothing, fenced := transaction(""), transaction("SELECT 1"), transaction(stands.SQL, stands.Args...)
	interleave(b, alone, nothing, fenced)
	alone.report(b, "alone-")
	nothing.report(b, "nothing-")
	fenced.report(b, "fenced-")
	b.ReportMetric(ratio(quantile(fenced.took, 0.5), quantile(alone.took, 0.5)), "ratio")
}

package sqltest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/fence"
	"github.com/stretchr/testify/require"
)

// TestSourceOfSQLite: with the data source name of docs/sql-fence.md, transactions that read and then write wait for each
// other. Without _txlock, one that has read can't write once another has.
func TestSourceOfSQLite(t *testing.T) {
	page, err := os.ReadFile("../../docs/sql-fence.md")
	require.NoError(t, err)
	source := regexp.MustCompile(`(?m)^file:/var/lib/worker/jobs.db(\?\S+)$`).FindStringSubmatch(string(page))
	require.Len(t, source, 2)
	ctx := t.Context()

	db, fences := jobs(t, source[1])
	w, err := fences.Leader(ctx, term{"e", 7})
	require.NoError(t, err)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { // the test waits for it
			errs <- fences.Tx(ctx, w, nil, func(tx *sql.Tx) error { return copyJobs(ctx, tx) })
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	var n int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM jobs").Scan(&n))
	require.Equal(t, cap(errs), n)

	const lock = "&_txlock=immediate"
	require.Contains(t, source[1], lock)
	db, _ = jobs(t, strings.Replace(source[1], lock, "", 1))
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM jobs").Scan(&n))
	_, err = db.ExecContext(ctx, "INSERT INTO jobs VALUES (1)")
	require.NoError(t, err)
	require.ErrorContains(t, copyJobs(ctx, tx), "database is locked (517)") // SQLITE_BUSY_SNAPSHOT
	require.NoError(t, tx.Rollback())
}

// jobs opens a new database with a table and a fence.
func jobs(t *testing.T, settings string) (*sql.DB, *fence.Fence) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "jobs.db")+settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	fences, err := fence.New(db, fence.SQLite, nil)
	require.NoError(t, err)
	require.NoError(t, fences.Create(t.Context()))
	_, err = db.ExecContext(t.Context(), "CREATE TABLE jobs (n integer)")
	require.NoError(t, err)
	return db, fences
}

// copyJobs reads and then writes.
func copyJobs(ctx context.Context, tx *sql.Tx) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM jobs").Scan(&n); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO jobs VALUES (?)", n)
	return err
}

package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/fence"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

// database is a kind of database that the tests run on.
type database struct {
	name    string
	dialect fence.Dialect
	driver  string
	source  func(t *testing.T) string
	levels  []sql.IsolationLevel
	waiting string // counts the transactions of this table that wait for a lock
}

var serverLevels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

var databases = []database{
	{
		name: "PostgreSQL", dialect: fence.PostgreSQL, driver: postgresql.driver, source: postgresql.open, levels: serverLevels,
		waiting: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FENCE %'",
	},
	{
		name: "MariaDB", dialect: fence.MySQL, driver: mariadb.driver, source: mariadb.open, levels: serverLevels,
		// Of the whole server: tests are not parallel. The table innodb_trx shows what it was a tenth of a second ago.
		waiting: "SELECT CAST(variable_value AS int) FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'",
	},
	{
		name: "SQLite", dialect: fence.SQLite, driver: "sqlite", levels: []sql.IsolationLevel{sql.LevelDefault},
		source: func(t *testing.T) string {
			// A transaction that meets another writer fails at once, so that no test waits.
			return "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(0)"
		},
	},
}

func each(t *testing.T, test func(t *testing.T, d *scene)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			if testing.Short() && d.waiting != "" {
				t.Skip("with -short no server is started")
			}
			test(t, d.open(t))
		})
	}
}

// scene is a fence with a table beside it that leaders write to.
type scene struct {
	database
	url   string
	db    *sql.DB
	fence *fence.Fence
	table string // of the fence
	data  string
}

const election = "database/primary"

var tables atomic.Int64

func (d database) open(t *testing.T) *scene {
	n := tables.Add(1)
	s := &scene{database: d, url: d.source(t), table: fmt.Sprintf("fence_%d", n), data: fmt.Sprintf("data_%d", n)}
	s.db = s.connect(t, s.url)
	s.fence = s.through(t, s.db)
	require.NoError(t, s.fence.Create(t.Context()))
	require.NoError(t, s.fence.Create(t.Context()), "it exists already")
	s.exec(t, "CREATE TABLE "+s.data+" (token bigint)")
	return s
}

func (s *scene) connect(t *testing.T, url string) *sql.DB {
	db, err := sql.Open(s.driver, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// through returns the fence as another process sees it.
func (s *scene) through(t *testing.T, db *sql.DB) *fence.Fence {
	f, err := fence.New(db, s.dialect, &fence.Options{Table: s.table})
	require.NoError(t, err)
	return f
}

func (s *scene) exec(t *testing.T, statement string) {
	_, err := s.db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
}

func (s *scene) count(t *testing.T, query string) int {
	n := 0
	require.NoError(t, s.db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// writes is how many rows leaders have written.
func (s *scene) writes(t *testing.T) int { return s.count(t, "SELECT count(*) FROM "+s.data) }

// write adds a row, as a leader would.
func (s *scene) write(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+s.data+" (token) VALUES (1)")
	return err
}

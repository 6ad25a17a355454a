package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How a script ends.
const (
	late    = "late"    // the write is committed after the raise has returned: no fence
	waits   = "waits"   // the raise waits until the write is committed
	refused = "refused" // the raise returns first, and the transaction fails
)

// check is a way to write under the fence: the steps of a leader's transaction before the next leader raises the fence, and
// those after it. The commit is the last.
type check struct {
	name          string
	before, after []step
	want          map[string]string // by database: the ending at each isolation level, or one for all
}

type step func(ctx context.Context, s *scene, tx *sql.Tx) error

func write(ctx context.Context, s *scene, tx *sql.Tx) error { return s.write(ctx, tx) }

// right is the check of package fence.
func right(ctx context.Context, s *scene, tx *sql.Tx) error {
	return s.fence.Check(ctx, tx, election, 1)
}

// row is a check that requires the row, as a select locks it.
func row(lock string) step {
	return func(ctx context.Context, s *scene, tx *sql.Tx) error {
		var token int64
		return tx.QueryRowContext(ctx, fmt.Sprintf("SELECT token FROM %s WHERE election = '%s' AND token = 1 %s", s.table, election, lock)).Scan(&token)
	}
}

// statement writes in one statement with the check. It has FENCE and DATA for the tables.
func statement(text string) step {
	return func(ctx context.Context, s *scene, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, strings.NewReplacer("FENCE", s.table, "DATA", s.data, "ELECTION", election).Replace(text))
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("%d rows, %w", n, err)
		}
		return nil
	}
}

var checks = []check{
	{"none", nil, []step{write},
		map[string]string{"PostgreSQL": "late late late", "MariaDB": "late late late", "SQLite": "late"}},
	{"SELECT first", []step{row("")}, []step{write},
		map[string]string{"PostgreSQL": "late late late", "MariaDB": "late late waits", "SQLite": "refused"}},
	{"SELECT last", []step{write, row("")}, nil,
		map[string]string{"PostgreSQL": "late late late", "MariaDB": "late late waits", "SQLite": "waits"}},
	{"one statement with EXISTS", []step{statement("INSERT INTO DATA SELECT 1 FROM (SELECT 1) AS one WHERE EXISTS (SELECT 1 FROM FENCE WHERE election = 'ELECTION' AND token = 1)")}, nil,
		map[string]string{"PostgreSQL": "late late late", "MariaDB": "late waits waits", "SQLite": "waits"}},
	{"FOR KEY SHARE first", []step{row("FOR KEY SHARE")}, []step{write},
		map[string]string{"PostgreSQL": "late late late"}},
	{"FOR KEY SHARE last", []step{write, row("FOR KEY SHARE")}, nil,
		map[string]string{"PostgreSQL": "late late late"}},
	{"one statement with FOR SHARE in a CTE", []step{statement("WITH f AS (SELECT 1 FROM FENCE WHERE election = 'ELECTION' AND token = 1 FOR SHARE) INSERT INTO DATA SELECT 1 FROM f")}, nil,
		map[string]string{"PostgreSQL": "waits waits waits"}},
	{"Check of package fence, first", []step{right}, []step{write},
		map[string]string{"PostgreSQL": "waits waits waits", "MariaDB": "waits waits waits", "SQLite": "refused"}},
	{"Check of package fence, last", []step{write, right}, nil,
		map[string]string{"PostgreSQL": "waits waits waits", "MariaDB": "waits waits waits", "SQLite": "waits"}},
	{"Check of package fence, last, after the raise", []step{row("")}, []step{write, right}, // the snapshot is older than the raise
		map[string]string{"PostgreSQL": "refused refused refused", "MariaDB": "refused refused waits", "SQLite": "refused"}},
}

// The table of docs/sql-fence.md: what each check is worth at each isolation level. A script runs one transaction with
// the check up to a point, then the raise of the next leader to its end or until it waits, then the rest. The check of
// package fence never lets a late write through, and the wrong checks do where the table says so.
func TestChecks(t *testing.T) {
	each(t, func(t *testing.T, s *scene) {
		for _, c := range checks {
			want := strings.Fields(c.want[s.name])
			for i := range want {
				t.Run(c.name+"/"+s.levels[i].String(), func(t *testing.T) {
					require.Equal(t, want[i], s.script(t, c, s.levels[i]))
				})
			}
		}
	})
}

func (s *scene) script(t *testing.T, c check, level sql.IsolationLevel) (ending string) {
	ctx := t.Context()
	require.NoError(t, s.fence.Reset(ctx, election))
	require.NoError(t, s.fence.Raise(ctx, election, 1))
	s.exec(t, "DELETE FROM "+s.data)

	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	for _, step := range c.before {
		require.NoError(t, step(ctx, s, tx))
	}
	raised := make(chan error, 1)
	go func() { raised <- s.fence.Raise(ctx, election, 2) }()
	waited := s.blocked(t, raised)
	err = func() error {
		for _, step := range c.after {
			if err := step(ctx, s, tx); err != nil {
				return err
			}
		}
		return tx.Commit()
	}()
	if err != nil {
		t.Log(err)
		_ = tx.Rollback()
	}
	if waited {
		require.NoError(t, err)
		if err := <-raised; s.waiting != "" {
			require.NoError(t, err)
		}
		require.NoError(t, s.fence.Raise(ctx, election, 2))
	}
	require.Equal(t, err == nil, s.writes(t) == 1)
	switch {
	case waited:
		return waits
	case err == nil:
		return late
	default:
		return refused
	}
}

// blocked returns once the raise has ended, or is seen waiting for a lock; and which of these. On SQLite, a raise that
// would wait fails at once.
func (s *scene) blocked(t *testing.T, raised chan error) bool {
	if s.waiting == "" {
		err := <-raised
		raised <- err
		if err != nil {
			require.ErrorContains(t, err, "SQLITE_BUSY")
		}
		return err != nil
	}
	deadline := time.Now().Add(watchdog)
	for {
		select {
		case err := <-raised:
			require.NoError(t, err)
			return false
		default:
		}
		if s.count(t, strings.ReplaceAll(s.waiting, "FENCE", s.table)) > 0 {
			return true
		}
		require.True(t, time.Now().Before(deadline), "the raise neither ends nor waits")
		time.Sleep(10 * time.Millisecond)
	}
}

// The page has the endings that TestChecks requires, for each isolation level.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/sql-fence.md")
	require.NoError(t, err)
	text := strings.NewReplacer("`", "", "*", "").Replace(string(page))
	rows := 0
	for _, c := range checks {
		row := "\n| " + c.name + " |"
		for _, d := range databases {
			want := strings.Fields(c.want[d.name])
			if len(want) > 0 {
				require.Len(t, want, len(d.levels), c.name)
				row += " " + strings.Join(want, ", ")
			}
			row += " |"
		}
		if strings.Contains(text, "\n| "+c.name+" |") {
			require.Contains(t, text, row+"\n")
			rows++
		}
	}
	require.Equal(t, 9, rows)
}

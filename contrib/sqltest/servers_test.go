package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/fence"
	"github.com/go-leadership/leadership/internal/lab/whole"
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
		// Of the whole server, on which one test runs at a time. The table innodb_trx shows what it was a tenth of a second ago.
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

// each runs a test on all databases at the same time. No other test runs meanwhile.
func each(t *testing.T, test func(t *testing.T, d *scene)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			if d.waiting != "" {
				whole.Need(t)
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

// server is a database's server of this test process. The first test that needs it starts it, and TestMain stops it. It
// has a Unix socket in a temporary directory, and no port. As root it runs as the user nobody: PostgreSQL refuses root.
type server struct {
	what   string // for scripts/setup
	binary string // a pattern: Debian has it outside the PATH
	driver string
	source string // with DIR for the directory
	start  func(s *server, binary string) error
	end    syscall.Signal // stops it without waiting for its clients

	once   sync.Once
	err    error
	dir    string
	exited chan error
	pid    int
}

// open returns the URL of the server, which it starts if that is still to be done.
func (s *server) open(t *testing.T) string {
	s.once.Do(func() { s.err = s.launch() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.url()
}

func (s *server) url() string { return strings.ReplaceAll(s.source, "DIR", s.dir) }

func (s *server) launch() error {
	found, err := filepath.Glob(s.binary)
	if err != nil || len(found) == 0 {
		return errors.Join(fmt.Errorf("there is no %s: run scripts/setup %s", s.binary, s.what), err)
	}
	if s.dir, err = os.MkdirTemp("", s.what); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		if err := os.Chown(s.dir, nobody, nobody); err != nil {
			return err
		}
	}
	return s.start(s, found[len(found)-1])
}

const nobody = 65534

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// prepare runs a command to its end.
func (s *server) prepare(name string, args ...string) error {
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// serve starts the server, and waits until it answers.
func (s *server) serve(name string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	started := make(chan error)
	s.exited = make(chan error, 1)
	go func() { // on one thread: the kernel sends Pdeathsig when the thread ends
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.exited <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.pid = cmd.Process.Pid
	db, err := sql.Open(s.driver, s.url())
	if err != nil {
		return err
	}
	defer db.Close()
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case err := <-s.exited:
			s.pid = 0
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s ended: %v\n%s", name, err, text)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w", name, err)
		}
	}
}

func (s *server) stop() error {
	if s.pid != 0 {
		if err := syscall.Kill(s.pid, s.end); err != nil {
			return err
		}
		select {
		case <-s.exited:
		case <-time.After(watchdog):
			return errors.Join(errors.New(s.what+" did not end"), syscall.Kill(s.pid, syscall.SIGKILL))
		}
	}
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

var postgresql = &server{
	what: "postgresql", binary: "/usr/lib/postgresql/*/bin/postgres", end: syscall.SIGINT,
	driver: "pgx", source: "host=DIR port=5432 user=tester dbname=postgres",
	start: func(s *server, binary string) error {
		data := filepath.Join(s.dir, "data")
		if err := s.prepare(filepath.Join(filepath.Dir(binary), "initdb"),
			"-D", data, "-U", "tester", "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust", "--no-sync"); err != nil {
			return err
		}
		return s.serve(binary, "-D", data, "-k", s.dir, "-F", "-c", "listen_addresses=", "-c", "port=5432")
	},
}

var mariadb = &server{
	what: "mariadb", binary: "/usr/sbin/mariadbd", end: syscall.SIGTERM,
	driver: "mysql", source: "root@unix(DIR/socket)/mysql",
	start: func(s *server, binary string) error {
		data := "--datadir=" + filepath.Join(s.dir, "data")
		if err := s.prepare("mariadb-install-db", "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
			return err
		}
		return s.serve(binary, "--no-defaults", data, "--skip-networking", "--socket="+filepath.Join(s.dir, "socket"),
			"--pid-file="+filepath.Join(s.dir, "pid"), "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size="+strconv.Itoa(16<<20))
	},
}

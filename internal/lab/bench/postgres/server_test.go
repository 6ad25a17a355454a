package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// server is a PostgreSQL of Debian's package with its defaults: a commit waits for the disk. Only the number of
// connections is higher, and pg_stat_statements counts statements. As root it runs as the user nobody, since PostgreSQL
// refuses root.
type server struct {
	dir, bin string
	port     int
	process  *os.Process
	exited   chan error
	observer *pgxpool.Pool // of the benchmark, whose statements are not counted
}

const (
	nobody    = 65534
	observer  = "observer"
	candidate = "contender" // the role of those that are measured
)

// newServer starts a server, which ends with the benchmark.
func newServer(tb testing.TB) *server {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	require.NotEmpty(tb, found, "there is no PostgreSQL: run scripts/setup postgresql")
	s := &server{bin: filepath.Dir(slices.Max(found))}
	var err error
	s.dir, err = os.MkdirTemp("", "pgbench")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	if os.Getuid() == 0 {
		require.NoError(tb, os.Chown(s.dir, nobody, nobody))
	}
	s.copyData(tb)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	s.port = listener.Addr().(*net.TCPAddr).Port
	require.NoError(tb, listener.Close())
	s.start(tb)
	tb.Cleanup(func() { s.end(tb, syscall.SIGINT) })
	s.observer, err = pgxpool.New(context.Background(), s.url(observer, s.address()))
	require.NoError(tb, err)
	tb.Cleanup(s.observer.Close)
	s.exec(tb, "CREATE ROLE "+candidate+" SUPERUSER LOGIN")
	s.exec(tb, "CREATE EXTENSION pg_stat_statements")
	return s
}

// template is the data of a new server, which each server begins with a copy of.
var template struct {
	sync.Mutex
	dir string // made by the first server, removed by TestMain
}

func (s *server) copyData(tb testing.TB) {
	tb.Helper()
	template.Lock()
	defer template.Unlock()
	run := func(cmd *exec.Cmd) {
		out, err := cmd.CombinedOutput()
		require.NoError(tb, err, "%s\n%s", cmd, out)
	}
	if template.dir != "" {
		run(exec.Command("cp", "-a", template.dir, s.data()))
		return
	}
	run(s.command("initdb", "-D", s.data(), "-U", observer, "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust"))
	dir, err := os.MkdirTemp("", "pgbench-template")
	require.NoError(tb, err)
	template.dir = filepath.Join(dir, "data")
	run(exec.Command("cp", "-a", s.data(), template.dir))
}

func (s *server) data() string    { return filepath.Join(s.dir, "data") }
func (s *server) address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

func (s *server) url(role, address string) string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", role, address)
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// start starts the server on its data, and waits until it answers.
func (s *server) start(tb testing.TB) {
	tb.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(tb, err)
	defer log.Close()
	cmd := s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=2500", "-c", "shared_preload_libraries=pg_stat_statements")
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
	require.NoError(tb, <-started)
	s.process = cmd.Process
	require.Eventually(tb, s.answers, time.Minute, 10*time.Millisecond, "the server answers")
}

func (s *server) answers() bool {
	conn, err := pgx.Connect(context.Background(), s.url(observer, s.address()))
	if err != nil {
		return false
	}
	return conn.Close(context.Background()) == nil
}

// end ends the server with a signal: SIGINT without waiting for clients, SIGQUIT as in a crash.
func (s *server) end(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	require.NoError(tb, s.process.Signal(signal))
	select {
	case <-s.exited:
	case <-time.After(watchdog):
		_ = s.process.Kill()
		tb.Fatal("the server did not end")
	}
}

// crash stops the server without a checkpoint, and starts it again at once.
func (s *server) crash(tb testing.TB) {
	tb.Helper()
	s.end(tb, syscall.SIGQUIT)
	s.start(tb)
}

func (s *server) exec(tb testing.TB, statement string, args ...any) {
	tb.Helper()
	_, err := s.observer.Exec(context.Background(), statement, args...)
	require.NoError(tb, err, statement)
}

// autovacuum turns it on or off.
func (s *server) autovacuum(tb testing.TB, value string) {
	tb.Helper()
	s.exec(tb, "ALTER SYSTEM SET autovacuum = "+value)
	s.exec(tb, "SELECT pg_reload_conf()")
}

// number returns the single number that a query selects.
func (s *server) number(tb testing.TB, query string, args ...any) float64 {
	tb.Helper()
	var n float64
	require.NoError(tb, s.observer.QueryRow(context.Background(), query, args...).Scan(&n), query)
	return n
}

// statements returns how many statements of the contender the server has executed, those that match the pattern alone.
// Calls within functions are not counted, nor are empty statements, which drivers send as pings.
func (s *server) statements(tb testing.TB, pattern string) float64 {
	tb.Helper()
	return s.number(tb, `SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements JOIN pg_roles r ON r.oid = userid
		WHERE rolname = $1 AND query ~ $2`, candidate, pattern)
}

// connections returns how many the contender has.
func (s *server) connections(tb testing.TB) float64 {
	tb.Helper()
	return s.number(tb, "SELECT count(*)::float8 FROM pg_stat_activity WHERE usename = $1", candidate)
}

// wal returns how many bytes were ever written to the log.
func (s *server) wal(tb testing.TB) float64 {
	tb.Helper()
	return s.number(tb, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8")
}

// watchdog is how long anything may take before a benchmark fails.
const watchdog = time.Minute

// receive waits for a value, and fails the benchmark if none comes.
func receive[T any](tb testing.TB, ch <-chan T, what string) T {
	tb.Helper()
	timer := time.NewTimer(watchdog)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		tb.Fatalf("waited %v for %s", watchdog, what)
		panic("unreachable")
	}
}

package sqltest

import (
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
	"syscall"
	"testing"
	"time"
)

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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
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
		case <-time.After(time.Minute):
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

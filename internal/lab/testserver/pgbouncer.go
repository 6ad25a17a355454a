package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// The modes of a PgBouncer: how long a client keeps a connection to the server.
const (
	SessionPooling     = "session"
	TransactionPooling = "transaction"
	// SessionPoolingWithoutReset hands on a connection as the last client has left it.
	SessionPoolingWithoutReset = SessionPooling + "\nserver_reset_query ="
)

// Pgbouncer is a PgBouncer in front of a PostgreSQL server: a service of one member. Any user connects, without a
// password.
type Pgbouncer struct{ *service }

// NewPgbouncer starts a PgBouncer for a test, as [NewPostgres] does a server. Close it before its server.
func NewPgbouncer(t testing.TB, server *Postgres, mode string) *Pgbouncer {
	t.Helper()
	return startForTest(t, mode, func(ctx context.Context, mode string) (*Pgbouncer, error) {
		return startPgbouncer(ctx, server, mode, reservePorts)
	})
}

func startPgbouncer(ctx context.Context, server *Postgres, mode string, reserve reserveFunc) (*Pgbouncer, error) {
	program, err := findPgbouncer()
	if err != nil {
		return nil, err
	}
	s, err := plan{
		name:    "pgbouncer",
		members: 1,
		ports:   1,
		reserve: reserve,
		equip: func(dir string, members []*Member, ports []int) error {
			m := members[0]
			m.server = &bouncer{program: program, config: m.file("pgbouncer.ini"), port: ports[0]}
			settings := fmt.Sprintf(`[databases]
* = host=%s port=%s auth_user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = %s
pool_mode = %s
max_client_conn = 1000
default_pool_size = 100
ignore_startup_parameters = extra_float_digits
`, server.socket, server.port, PostgresUser, ports[0], m.file("users"), PostgresUser, mode)
			return errors.Join(
				os.WriteFile(m.file("pgbouncer.ini"), []byte(settings), 0o644),
				os.WriteFile(m.file("users"), []byte(`"`+PostgresUser+`" ""`+"\n"), 0o644),
				giveAway(dir),
			)
		},
	}.start(ctx)
	if err != nil {
		return nil, err
	}
	return &Pgbouncer{s}, nil
}

// bouncer is one PgBouncer.
type bouncer struct {
	program string
	config  string
	port    int
}

func (b *bouncer) command() *exec.Cmd {
	cmd := exec.Command(b.program, b.config)
	asNobody(cmd) // PgBouncer refuses root
	return cmd
}

// role asks PgBouncer itself: the server behind it might be down.
func (b *bouncer) role(ctx context.Context) (role, error) {
	conninfo := "host=127.0.0.1 port=" + strconv.Itoa(b.port) + " user=" + PostgresUser + " dbname=pgbouncer"
	if _, err := runPsql(ctx, conninfo, "SHOW VERSION"); err != nil {
		return unready, err
	}
	return leader, nil
}

// findPgbouncer looks outside the PATH, too: Debian's is in the PATH of root alone.
func findPgbouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const usual = "/usr/sbin/pgbouncer"
	if _, err := os.Stat(usual); err != nil {
		return "", errors.New("PgBouncer is not installed: apt-get install pgbouncer (or run `make setup STORE=pgbouncer`)")
	}
	return usual, nil
}

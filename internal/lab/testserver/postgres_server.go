package testserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// postgresServer is one PostgreSQL server.
type postgresServer struct {
	program   string
	dir, data string
	conninfo  string
}

func (s *postgresServer) command() *exec.Cmd {
	cmd := exec.Command(s.program, "-D", s.data, "-c", "config_file="+s.dir+"/postgresql.conf")
	cmd.Env = postgresEnv()
	asNobody(cmd)
	return cmd
}

// role asks no more than whether the server answers: a standby is alone in its service, too.
func (s *postgresServer) role(ctx context.Context) (role, error) {
	if _, err := runPsql(ctx, s.conninfo, "SELECT 1"); err != nil {
		return unready, err
	}
	return leader, nil
}

// Query runs SQL as [Postgres.Psql] does. An error fails the test, which ends.
func (p *Postgres) Query(t testing.TB, sql string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	out, err := p.Psql(ctx, sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Psql runs SQL as the superuser, one statement after the other, each in a transaction of its own, up to the first that
// fails. It returns the rows as psql -XAtq prints them: a line each, with | between the columns.
func (p *Postgres) Psql(ctx context.Context, sql string) (string, error) {
	return runPsql(ctx, p.conninfo(), sql)
}

// conninfo is a connection string for the superuser, through the socket.
func (p *Postgres) conninfo() string {
	return "host=" + p.socket + " port=" + p.port + " user=" + PostgresUser + " dbname=postgres"
}

func runPsql(ctx context.Context, conninfo, sql string) (string, error) {
	program, err := findPostgres()
	if err != nil {
		return "", err
	}
	psql := filepath.Join(filepath.Dir(program), "psql") // in the PATH is a script that looks for it, which takes longer
	cmd := exec.CommandContext(ctx, psql, "-XAtqw", "-v", "ON_ERROR_STOP=1", "-d", conninfo, "-f", "-")
	cmd.Env = postgresEnv()
	cmd.Stdin = strings.NewReader(sql)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("testserver: psql: %w", context.Cause(ctx))
	}
	if err != nil {
		return "", fmt.Errorf("testserver: psql: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// postgresEnv is the environment without the variables that stand for connection parameters, in plain English.
func postgresEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") })
	return append(env, "LC_ALL=C.UTF-8")
}

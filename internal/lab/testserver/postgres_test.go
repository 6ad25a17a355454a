package testserver

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	p := NewPostgres(t, PostgresConfig{Extra: map[string]string{"cluster_name": "it's"}})
	addr, m := p.Addrs()[0], p.Member(0)
	require.Equal(t, "it's", p.Query(t, "SHOW cluster_name"), "an apostrophe must be possible")
	require.Equal(t, "off|300", p.Query(t, "SELECT current_setting('fsync'), current_setting('max_connections')"))
	require.Equal(t, "1|a\n2|b", p.Query(t, "VALUES (1, 'a'), (2, 'b')"))
	putPostgres(t, addr, "kept")
	for name, restart := range map[string]func(context.Context) error{"fast": p.Restart, "immediate": p.RestartImmediately} {
		client := connect(t, p)
		require.NoError(t, restart(bounded(t)), name)
		require.Error(t, client.Wait(), name)
		require.Equal(t, "kept", getPostgres(t, addr), name)
	}
	_, err := p.Psql(t.Context(), "SELECT 1; SELECT nothing; SELECT 2")
	require.ErrorContains(t, err, `column "nothing" does not exist`)
	requireLogsKept(t, p.service, `column "nothing" does not exist`)
	require.ErrorIs(t, p.Promote(t.Context()), errNoStandby)

	// A backend is killed: the server ends all connections and goes on.
	require.ErrorContains(t, p.KillBackend(t.Context(), 1), "1 is no process of the server")
	victim, other := connect(t, p), connect(t, p)
	pid, err := strconv.Atoi(p.Query(t, "SELECT min(pid) FROM pg_stat_activity WHERE application_name = 'client'"))
	require.NoError(t, err)
	require.NoError(t, p.KillBackend(bounded(t), pid))
	require.Error(t, victim.Wait())
	require.Error(t, other.Wait(), "the server must have ended all connections")
	require.Equal(t, "kept", getPostgres(t, addr))
	require.True(t, m.Running())

	// Backends stand still with the server, and end with it.
	client := connect(t, p)
	require.NoError(t, m.Pause())
	process := m.current()
	children := slices.DeleteFunc(process.children(), child.ended)
	require.NotEmpty(t, children)
	for _, c := range children {
		require.True(t, c.stopped(), "%c", c.state)
	}
	require.NoError(t, m.Resume())
	for _, c := range process.children() {
		require.False(t, c.stopped(), "%c", c.state)
	}
	require.NoError(t, m.Pause())
	require.NoError(t, m.Kill())
	require.Error(t, client.Wait())
	require.NoError(t, m.Start(bounded(t)), "nothing of the old server may be in the way")
}

// connect starts a client that waits, and returns when the server knows it.
func connect(t *testing.T, p *Postgres) *exec.Cmd {
	client := exec.Command("psql", "-X", p.conninfo()+" application_name=client", "-c", "SELECT pg_sleep(600)")
	require.NoError(t, client.Start())
	require.NoError(t, p.await(bounded(t), "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'client' AND wait_event = 'PgSleep')"))
	return client
}

func TestPostgresPasswordsAndPgbouncer(t *testing.T) {
	t.Parallel()
	p := NewPostgres(t, PostgresConfig{SCRAM: true})
	p.Query(t, "CREATE ROLE ann LOGIN PASSWORD 'right'")
	login := func(user, password string) error {
		_, err := runPsql(bounded(t), "postgres://"+user+":"+password+"@"+p.Addrs()[0]+"/postgres", "SELECT 1")
		return err
	}
	require.NoError(t, login("ann", "right"))
	require.NoError(t, login(PostgresUser, PostgresPassword))
	require.ErrorContains(t, login("ann", "wrong"), "password authentication failed")
	require.ErrorContains(t, login("ann", ""), "no password supplied")

	for _, mode := range []string{SessionPooling, TransactionPooling} {
		b := NewPgbouncer(t, p, mode)
		for range 2 {
			out, err := runPsql(bounded(t), "postgres://ann@"+b.Addrs()[0]+"/postgres", "SELECT current_user")
			require.NoError(t, err)
			require.Equal(t, "ann", out)
			require.NoError(t, b.Member(0).Stop())
			require.NoError(t, b.Member(0).Start(bounded(t)))
		}
		out, err := runPsql(bounded(t), "postgres://"+PostgresUser+"@"+b.Addrs()[0]+"/pgbouncer", "SHOW CONFIG")
		require.NoError(t, err)
		require.Contains(t, out, "pool_mode|"+mode+"|")
	}
}

func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	p := NewPostgres(t, PostgresConfig{TLS: ServerTLS})
	login := func(p *Postgres, user, params string) error {
		_, err := runPsql(bounded(t), "postgres://"+user+"@"+p.Addrs()[0]+"/postgres?"+params, "SELECT 1")
		return err
	}
	verified := func(p *Postgres) string { return "sslmode=verify-full&sslrootcert=" + p.CACert }
	require.NoError(t, login(p, PostgresUser, verified(p)))
	require.ErrorContains(t, login(p, PostgresUser, "sslmode=disable"), "no encryption")

	mutual := NewPostgres(t, PostgresConfig{TLS: MutualTLS})
	require.ErrorContains(t, login(p, PostgresUser, verified(mutual)), "certificate verify failed", "it is another server")
	require.ErrorContains(t, login(mutual, ClientName, verified(mutual)), "requires a valid client certificate")
	shown := verified(mutual) + "&sslcert=" + mutual.ClientCert + "&sslkey=" + mutual.ClientKey
	require.NoError(t, login(mutual, ClientName, shown))
	require.ErrorContains(t, login(mutual, PostgresUser, shown), `authentication failed for user "tester"`, "it is another user's certificate")

	const identifier = "SELECT system_identifier FROM pg_control_system()"
	usual := p.Query(t, identifier)
	require.Equal(t, usual, mutual.Query(t, identifier))
	require.NotEqual(t, usual, NewPostgres(t, PostgresConfig{Fresh: true, Fsync: true}).Query(t, identifier))
}

// What is committed after the standby was disconnected is lost, and nothing else.
func TestPostgresPromotion(t *testing.T) {
	t.Parallel()
	primary := NewPostgres(t, PostgresConfig{})
	standby := primary.Standby(t, PostgresConfig{}, false)
	primary.Query(t, "CREATE TABLE word (text text); INSERT INTO word VALUES ('kept')")
	require.NoError(t, standby.CatchUp(bounded(t)))
	require.Equal(t, "kept", standby.Query(t, "SELECT text FROM word"))
	_, err := standby.Psql(t.Context(), "INSERT INTO word VALUES ('refused')")
	require.ErrorContains(t, err, "read-only transaction")

	require.NoError(t, standby.Disconnect(bounded(t)))
	primary.Query(t, "INSERT INTO word VALUES ('late')")
	require.NoError(t, standby.Reconnect(bounded(t)))
	require.NoError(t, standby.CatchUp(bounded(t)))
	require.NoError(t, standby.Disconnect(bounded(t)))
	primary.Query(t, "INSERT INTO word VALUES ('lost')")
	require.NoError(t, standby.RestartImmediately(bounded(t)))
	require.NoError(t, primary.Member(0).Kill())
	require.NoError(t, standby.Promote(bounded(t)))
	standby.Query(t, "INSERT INTO word VALUES ('new')")
	require.Equal(t, "kept\nlate\nnew", standby.Query(t, "SELECT text FROM word"))
	require.Equal(t, "00000002", standby.Query(t, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"))
}

// No commit is confirmed that a synchronous standby does not have.
func TestPostgresSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := NewPostgres(t, PostgresConfig{TLS: MutualTLS, SCRAM: true})
	standby := primary.Standby(t, PostgresConfig{TLS: MutualTLS, SCRAM: true}, true)
	primary.Query(t, "CREATE TABLE word (text text); INSERT INTO word VALUES ('kept')")
	require.NoError(t, standby.Member(0).Pause())
	hanging, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := primary.Psql(hanging, "INSERT INTO word VALUES ('hanging')")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, standby.Member(0).Resume())
	primary.Query(t, "INSERT INTO word VALUES ('confirmed')")
	require.NoError(t, primary.Member(0).Kill())
	require.NoError(t, standby.Promote(bounded(t)))
	require.Contains(t, standby.Query(t, "SELECT text FROM word"), "confirmed")
	standby.Query(t, "INSERT INTO word VALUES ('new')") // waits for no standby
}

func TestPostgresDiskFull(t *testing.T) {
	t.Parallel()
	skipWithoutRoot(t)
	p := NewPostgres(t, PostgresConfig{DiskSize: 128 << 20})
	p.Query(t, "CREATE TABLE word (text text); INSERT INTO word VALUES ('kept')")
	require.NoError(t, p.FillDisk())
	_, err := p.Psql(t.Context(), "INSERT INTO word SELECT repeat('much', 1000) FROM generate_series(1, 100000)")
	require.ErrorContains(t, err, "No space left on device")
	require.NoError(t, p.FreeDisk())
	require.NoError(t, poll(bounded(t), func(ctx context.Context) (string, error) {
		if !p.Member(0).Running() {
			return "", p.Member(0).Start(ctx)
		}
		return p.missing(ctx), nil
	}))
	require.Equal(t, "kept", p.Query(t, "SELECT text FROM word"))
}

// skipWithoutRoot checks that a small disk is refused without root.
func skipWithoutRoot(t *testing.T) {
	if os.Getuid() == 0 {
		return
	}
	_, err := StartPostgres(bounded(t), PostgresConfig{DiskSize: 128 << 20})
	require.ErrorContains(t, err, "a small disk needs root")
	t.Skip("a small disk takes root")
}

package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestTypesOfACaller: the functions run with the rights of the schema's owner, so they must use no type or table that
// the caller has made. Without pg_temp in search_path, PostgreSQL looks for types in the caller's temporary schema
// first.
func TestTypesOfACaller(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	schema, err := postgres.Schema("")
	require.NoError(t, err)
	srv.Query(t, schema)
	srv.Query(t, `CREATE ROLE candidate LOGIN; GRANT USAGE ON SCHEMA leadership TO candidate;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA leadership TO candidate;
		CREATE TABLE ran (as_role text); GRANT INSERT ON ran TO PUBLIC`)
	for _, call := range []string{
		"leadership.open('a', 3000, 1)", "leadership.enter('a', 'x', 'n', 0, 1, 'v')", "leadership.look('{1}', '{x}', '{0}')",
		"leadership.acknowledge('a', 1, 1, 'v')", "leadership.fence('a', 1)", "leadership.queue('x', null)",
		"leadership.renew('a', 2)", "leadership.elections('')", "leadership.hello()",
	} {
		_, _ = srv.Psql(t.Context(), `SET SESSION AUTHORIZATION candidate;
			CREATE FUNCTION pg_temp.spy() RETURNS bool LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.ran VALUES (current_user); RETURN true; END';
			GRANT EXECUTE ON FUNCTION pg_temp.spy() TO PUBLIC;
			CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.spy());
			CREATE DOMAIN pg_temp.bytea AS pg_catalog.bytea CHECK (pg_temp.spy());
			SELECT `+call)
		require.Empty(t, srv.Query(t, "SELECT DISTINCT as_role FROM ran WHERE as_role <> 'candidate'"), "%s ran a caller's code with the owner's rights", call)
	}
}

// TestPauseOfALostSession: the first session, or the first with a longer TTL, is lost in a failover, and with it what
// the longest TTL is. A rival with the same TTL waits that long all the same.
func TestPauseOfALostSession(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	schema, err := postgres.Schema("")
	require.NoError(t, err)
	srv.Query(t, schema)
	srv.Query(t, "UPDATE leadership.service SET timeline = 0")
	srv.Query(t, "SELECT leadership.hello()")
	srv.Query(t, "SELECT leadership.open('rival', 3000, 1)")
	require.Equal(t, "pause|3000", srv.Query(t, "SELECT outcome, pause_ttl FROM leadership.enter('rival', 'x', 'n', 0, 1, 'v')"))
}

// TestPublication: an operator publishes all tables of the database, for logical replication. PostgreSQL then refuses
// to update a table whose rows it can't name.
func TestPublication(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	srv.Query(t, "CREATE PUBLICATION everything FOR ALL TABLES")
	config := postgres.Config{Addresses: srv.Addrs(), TTL: ttl}
	b := castFirst(t, open(t, config), "x", "own")
	acknowledge(t, b, "own")
	srv.Query(t, "UPDATE leadership.service SET timeline = 0") // the next connection counts a failover
	requireLeader(t, open(t, config), "x", "own")
	require.Equal(t, "2", srv.Query(t, "SELECT epoch FROM leadership.service"))
}

// TestTableIsGone: a part of the schema is missing, such as after a restore that has failed. The error says what to do,
// and the program that tries again goes on when it is mended. A follower is not told that there is no leader.
func TestTableIsGone(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	config := postgres.Config{Addresses: srv.Addrs()}
	st := open(t, config)
	castFirst(t, st, "a", "own")
	srv.Query(t, "ALTER TABLE leadership.entry RENAME TO other")
	_, err := st.Cast(within(t, ttl/2), "b", "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "leadership schema postgres")
	_, err = open(t, config).Observe(within(t, ttl/2), "a", nil)
	require.ErrorIs(t, err, store.ErrUnavailable)
	srv.Query(t, "ALTER TABLE leadership.other RENAME TO entry")
	castFirst(t, st, "b", "own")
}

package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// The rule of rights: who was granted nothing may call no function. Each function has its own search_path, and those
// that clients call run with the rights of the owner.
func TestFunctions(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	query("CREATE ROLE " + name + "; GRANT USAGE ON SCHEMA " + name + " TO " + name)
	functions := func(where string) string {
		return query("SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = '" + name + "'::regnamespace AND " + where)
	}
	require.Empty(t, functions("has_function_privilege('"+name+"', oid, 'EXECUTE')"))
	require.Empty(t, functions("NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))"))
	require.Equal(t, "number tell", functions("NOT prosecdef"))
}

// The functions run with the rights of the schema's owner, so they use no type or table that the caller has made. Without
// pg_temp in search_path, PostgreSQL looks for types in the caller's temporary schema first.
func TestTypesOfACaller(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	query(fmt.Sprintf(`CREATE ROLE %[1]s; GRANT USAGE ON SCHEMA %[1]s TO %[1]s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %[1]s TO %[1]s;
		CREATE TABLE ran (as_role text); GRANT INSERT ON ran TO PUBLIC`, name))
	for _, call := range []string{
		"open('a', 3000, 1)", "enter('a', 'x', 'n', 0, 1, 'v')", "look('{1}', '{x}', '{0}')", "acknowledge('a', 1, 1, 'v')",
		"fence('a', 1)", "queue('x', null)", "standing('x')", "renew('a', 2)", "elections('')", "hello()",
	} {
		conn := dial(t, name)
		for _, sql := range []string{
			"SET SESSION AUTHORIZATION " + name,
			"CREATE FUNCTION pg_temp.spy() RETURNS bool LANGUAGE plpgsql AS 'BEGIN INSERT INTO " + name + ".ran VALUES (current_user); RETURN true; END'",
			"GRANT EXECUTE ON FUNCTION pg_temp.spy() TO PUBLIC",
			"CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.spy())",
			"CREATE DOMAIN pg_temp.bytea AS pg_catalog.bytea CHECK (pg_temp.spy())",
		} {
			_, err := rows(soon(t), conn, sql)
			require.NoError(t, err, sql)
		}
		_, err := rows(soon(t), conn, "SELECT "+call)
		require.NoError(t, err, call)
		require.Empty(t, query("SELECT DISTINCT as_role FROM ran WHERE as_role <> '"+name+"'"), "%s ran a caller's code with the owner's rights", call)
	}
}

// An operator publishes all tables of the database, for logical replication. PostgreSQL then refuses to update a table
// whose rows it can't name.
func TestPublication(t *testing.T) {
	t.Parallel()
	name, query := newSchema(t)
	query("CREATE PUBLICATION everything FOR ALL TABLES") // harmless to the other tests
	config := postgres.Config{Schema: name}
	b := castFirst(t, open(t, config), "x", "own")
	acknowledge(t, b, "own")
	query("UPDATE service SET timeline = 0") // the next connection counts a failover
	requireLeader(t, open(t, config), "x", "own")
	require.Equal(t, "2", query("SELECT epoch FROM service"))
}

// A part of the schema is missing, such as after a restore that has failed. The error says what to do, and the program
// that tries again goes on when it is mended. A follower is not told that there is no leader.
func TestTableIsGone(t *testing.T) {
	t.Parallel()
	name, query := newSchema(t)
	config := postgres.Config{Schema: name}
	st := open(t, config)
	castFirst(t, st, "a", "own")
	query("ALTER TABLE entry RENAME TO other")
	inVain(t, func(ctx context.Context) error { return second(st.Cast(ctx, "b", "own")) }, store.ErrUnavailable, "leadership schema postgres")
	late := open(t, config)
	inVain(t, func(ctx context.Context) error { return second(late.Observe(ctx, "a", nil)) }, store.ErrUnavailable, "leadership schema postgres")
	query("ALTER TABLE other RENAME TO entry")
	castFirst(t, st, "b", "own")
}

package postgres_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

const (
	candidateRole = "leadership_candidate"
	followerRole  = "leadership_follower"
	writerRole    = "some_role"
)

// withRoles starts a server in which an operator has created the schema, and the roles as the end of Schema says.
func withRoles(t *testing.T) *testserver.Postgres {
	t.Helper()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	sql, err := postgres.Schema("")
	require.NoError(t, err)
	server.Query(t, sql)
	server.Query(t, sql) // which changes nothing
	for _, role := range []string{candidateRole, followerRole, writerRole} {
		server.Query(t, "CREATE ROLE "+role+" LOGIN")
	}
	grants := regexp.MustCompile(`(?m)^--   (GRANT .*;)$`).FindAllStringSubmatch(sql, -1)
	require.NotEmpty(t, grants)
	for _, grant := range grants {
		server.Query(t, grant[1])
	}
	return server
}

// With the rights that the end of Schema grants, candidates lead, and followers are told of a leader and of the
// leader's death, though they may not end a session.
func TestRights(t *testing.T) {
	t.Parallel()
	server := withRoles(t)
	network := conformance.NewNetwork()
	leader := open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole, Dial: network.Dial})
	follower := open(t, postgres.Config{Addresses: server.Addrs(), User: followerRole})
	ack := acknowledge(t, castFirst(t, leader, "a", "own"), "own")
	require.Equal(t, ack, requireLeader(t, follower, "a", "own"))
	require.Equal(t, []string{"own"}, values(t, follower, "a"))
	names, err := follower.Elections(soon(t))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names)
	for what, err := range map[string]error{
		"cast":   second(follower.Cast(soon(t), "a", "own")),
		"clear":  follower.Clear(soon(t), "a"),
		"resign": follower.RequestResignation(soon(t), "a", 1),
	} {
		require.ErrorIs(t, err, store.ErrDenied, what)
		require.ErrorContains(t, err, "leadership schema postgres", what)
	}

	network.Cut()
	began := time.Now()
	told, err := storetest.Leader(soon(t), follower, "a", &ack)
	require.NoError(t, err)
	require.Equal(t, store.Leader{}, told)
	require.Greater(t, time.Since(began), ttl*2/3)
	require.Equal(t, "1", server.Query(t, "SELECT count(*) FROM leadership.entry"), "the row is still there")
	require.Empty(t, values(t, follower, "a"))
	next := open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole})
	acknowledge(t, castFirst(t, next, "a", "next"), "next")
	requireLeader(t, follower, "a", "next")
	network.Heal()
}

func second[T any](_ T, err error) error { return err }

// With the rights of a writer, a program writes under the fence and reads the leaders, and can do no more.
func TestRightsOfAWriter(t *testing.T) {
	t.Parallel()
	server := withRoles(t)
	server.Query(t, "CREATE TABLE data (key text PRIMARY KEY, value text); GRANT ALL ON data TO "+writerRole)
	b := castFirst(t, open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole}), "a", "own")
	acknowledge(t, b, "own")
	db := connect(t, server, nil)
	_, err := db.Exec(soon(t), "SET SESSION AUTHORIZATION "+writerRole)
	require.NoError(t, err)
	require.NoError(t, save(soon(t), db, b, "key", "value"))
	var leader []byte
	require.NoError(t, db.QueryRow(soon(t), "SELECT value FROM leadership.leader WHERE election = 'a'").Scan(&leader))
	require.Equal(t, "own", string(leader))
	for _, denied := range []string{"SELECT leadership.clear('a', '')", "DELETE FROM leadership.entry"} {
		_, err = db.Exec(soon(t), denied)
		require.Equal(t, "42501", code(err), denied)
	}
}

// A leader's role loses a right: the store says so, and the term ends in time. When the role has the right again, the
// candidate leads again.
func TestRightsAreRevoked(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"ALL FUNCTIONS IN SCHEMA leadership", "FUNCTION leadership.renew"} {
		t.Run(strings.Fields(function)[0], func(t *testing.T) {
			t.Parallel()
			server := withRoles(t)
			c := contend(t, open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole}), "a", "own")
			term := receive(t, c.Terms, "it leads")
			server.Query(t, "REVOKE EXECUTE ON "+function+" FROM "+candidateRole)
			began := time.Now()
			receive(t, term.Context().Done(), "the end of the term")
			require.Less(t, time.Since(began), ttl)
			require.ErrorIs(t, term.Ballot().Err(), store.ErrDenied)
			require.ErrorContains(t, term.Ballot().Err(), "leadership schema postgres")
			server.Query(t, "GRANT EXECUTE ON "+function+" TO "+candidateRole)
			require.Greater(t, receive(t, c.Terms, "it leads again").Token(), term.Token())
		})
	}
}

// A candidate that may not end a dead leader's session waits: the session's row stands, and its holder might come back.
func TestRightToEndASession(t *testing.T) {
	t.Parallel()
	server := withRoles(t)
	network := conformance.NewNetwork()
	leader := open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole, Dial: network.Dial})
	castFirst(t, leader, "a", "own")
	server.Query(t, "REVOKE EXECUTE ON FUNCTION leadership.expire FROM "+candidateRole)
	next := cast(t, open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole}), "a", "next")
	network.Cut()
	require.ErrorIs(t, next.Wait(within(t, 3*ttl)), context.DeadlineExceeded)
	server.Query(t, "GRANT EXECUTE ON FUNCTION leadership.expire TO "+candidateRole)
	require.NoError(t, next.Wait(soon(t)))
	network.Heal()
}

// A leader is cut off for longer than the TTL. No process may end its session, so the leader comes back with the same
// one. A follower that has found it dead is told of it again.
func TestDeadLeaderComesBack(t *testing.T) {
	t.Parallel()
	server := withRoles(t)
	network := conformance.NewNetwork()
	ballot := castFirst(t, open(t, postgres.Config{Addresses: server.Addrs(), User: candidateRole, Dial: network.Dial}), "a", "own")
	acknowledge(t, ballot, "own")
	follower := open(t, postgres.Config{Addresses: server.Addrs(), User: followerRole})
	requireLeader(t, follower, "a", "own")
	network.Cut()
	requireLeader(t, follower, "a", "")
	network.Heal()
	renewed(t, ballot)
	acknowledge(t, ballot, "again")
	requireLeader(t, follower, "a", "again")
	require.Equal(t, []string{"own"}, values(t, follower, "a"))
}

// Without the right to create a schema, a candidate is told what to do.
func TestNoRightToCreate(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	server.Query(t, "CREATE ROLE poor LOGIN")
	st := open(t, postgres.Config{Addresses: server.Addrs(), User: "poor"})
	require.Empty(t, values(t, st, "a"), "nothing is kept yet")
	_, err := st.Cast(soon(t), "a", "own")
	require.ErrorIs(t, err, store.ErrDenied)
	for _, part := range []string{"leadership schema postgres", `"poor"`, "schema leadership", "permission denied for database"} {
		require.ErrorContains(t, err, part)
	}
	sql, schemaErr := postgres.Schema("")
	require.NoError(t, schemaErr)
	server.Query(t, sql+"GRANT USAGE ON SCHEMA leadership TO poor; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA leadership TO poor")
	castFirst(t, st, "a", "own")
}

// A layout that the program does not know is refused.
func TestLayout(t *testing.T) {
	t.Parallel()
	server := testserver.NewPostgres(t, testserver.PostgresConfig{})
	config := postgres.Config{Addresses: server.Addrs()}
	castFirst(t, open(t, config), "a", "own")
	server.Query(t, "UPDATE leadership.service SET layout = 2")
	_, castErr := open(t, config).Cast(soon(t), "a", "own")
	_, readErr := storetest.Leader(soon(t), open(t, config), "a", nil)
	for _, err := range []error{castErr, readErr} {
		requireInvalid(t, err, "schema", "layout 2", "layout 1")
	}
}

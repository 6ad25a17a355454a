package postgres_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

const (
	candidateRole = "leadership_candidate"
	followerRole  = "leadership_follower"
	writerRole    = "some_role"
)

var createRoles sync.Once

// withRoles creates a schema as an operator does, with the roles that the end of Schema has.
func withRoles(t *testing.T) (schema string, query func(sql string) string) {
	t.Helper()
	schema, query = ownSchema(t)
	createRoles.Do(func() {
		for _, role := range []string{candidateRole, followerRole, writerRole} {
			query("CREATE ROLE " + role + " LOGIN")
		}
	})
	sql := schemaSQL(t, schema)
	query(sql) // which changes nothing
	grants := regexp.MustCompile(`(?m)^--   (GRANT .*;)$`).FindAllStringSubmatch(sql, -1)
	require.NotEmpty(t, grants)
	for _, grant := range grants {
		query(grant[1])
	}
	return schema, query
}

// With the rights that the end of Schema grants, candidates lead, and followers are told of a leader and of the
// leader's death, though they may not end a session.
func TestRights(t *testing.T) {
	t.Parallel()
	schema, query := withRoles(t)
	network := conformance.NewNetwork()
	defer network.Heal()
	leader := open(t, postgres.Config{Schema: schema, TTL: ttl, User: candidateRole, Dial: network.Dial})
	follower := open(t, postgres.Config{Schema: schema, TTL: ttl, User: followerRole})
	ack := acknowledge(t, castFirst(t, leader, "a", "own"), "own")
	require.Equal(t, ack, requireLeader(t, follower, "a", "own"))
	require.Equal(t, []string{"own"}, values(t, follower, "a"))
	ballots, err := follower.Ballots(soon(t), "a")
	require.NoError(t, err)
	require.GreaterOrEqual(t, ballots[0].Silence, time.Duration(0), "it is known")
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
	require.Equal(t, "1", query("SELECT count(*) FROM entry"), "the row is still there")
	require.Empty(t, values(t, follower, "a"))
	next := open(t, postgres.Config{Schema: schema, TTL: ttl, User: candidateRole})
	acknowledge(t, castFirst(t, next, "a", "next"), "next")
	requireLeader(t, follower, "a", "next")
}

func second[T any](_ T, err error) error { return err }

// With the rights of a writer, a program writes under the fence and reads the leaders, and can do no more.
func TestRightsOfAWriter(t *testing.T) {
	t.Parallel()
	schema, query := withRoles(t)
	query("CREATE TABLE data (key text PRIMARY KEY, value text); GRANT ALL ON data TO " + writerRole)
	b := castFirst(t, open(t, postgres.Config{Schema: schema, User: candidateRole}), "a", "own")
	acknowledge(t, b, "own")
	db := connect(t, schema, nil)
	_, err := db.Exec(soon(t), "SET SESSION AUTHORIZATION "+writerRole)
	require.NoError(t, err)
	require.NoError(t, save(soon(t), db, b, "key", "value"))
	var leader []byte
	require.NoError(t, db.QueryRow(soon(t), "SELECT value FROM leader WHERE election = 'a'").Scan(&leader))
	require.Equal(t, "own", string(leader))
	for _, denied := range []string{"SELECT clear('a', '')", "DELETE FROM entry"} {
		_, err = db.Exec(soon(t), denied)
		require.Equal(t, "42501", code(err), denied)
	}
}

// A leader's role loses a right: the store says so, and the term ends in time. When the role has the right again, the
// candidate leads again.
func TestRightsAreRevoked(t *testing.T) {
	t.Parallel()
	for _, functions := range []string{"ALL FUNCTIONS IN SCHEMA ", "FUNCTION renew"} {
		t.Run(strings.Fields(functions)[0], func(t *testing.T) {
			t.Parallel()
			meter := stall.Watch(t)
			schema, query := withRoles(t)
			functions := strings.Replace(functions, "SCHEMA ", "SCHEMA "+schema, 1)
			c := contend(t, open(t, postgres.Config{Schema: schema, TTL: ttl, User: candidateRole}), "a", "own")
			term := receive(t, c.Terms, "it leads")
			query("REVOKE EXECUTE ON " + functions + " FROM " + candidateRole)
			began := time.Now()
			receive(t, term.Context().Done(), "the end of the term")
			require.Less(t, time.Since(began), ttl+meter.Stalled(), "%v", meter)
			require.ErrorIs(t, term.Ballot().Err(), store.ErrDenied)
			require.ErrorContains(t, term.Ballot().Err(), "leadership schema postgres")
			query("GRANT EXECUTE ON " + functions + " TO " + candidateRole)
			require.Greater(t, receive(t, c.Terms, "it leads again").Token(), term.Token())
		})
	}
}

// A candidate that may not end a dead leader's session waits: the session's row stands, and its holder might come back.
// The holder comes back with the same session, and a follower that has found it dead is told of it again.
func TestRightToEndASession(t *testing.T) {
	t.Parallel()
	schema, query := withRoles(t)
	query("REVOKE EXECUTE ON FUNCTION expire FROM " + candidateRole)
	network := conformance.NewNetwork()
	defer network.Heal()
	config := postgres.Config{Schema: schema, TTL: ttl, User: candidateRole}
	cutOff := config
	cutOff.Dial = network.Dial
	ballot := castFirst(t, open(t, cutOff), "a", "own")
	acknowledge(t, ballot, "own")
	follower := open(t, postgres.Config{Schema: schema, TTL: ttl, User: followerRole})
	requireLeader(t, follower, "a", "own")
	next := cast(t, open(t, config), "a", "next")
	network.Cut()
	requireLeader(t, follower, "a", "")
	require.ErrorIs(t, next.Wait(within(t, ttl)), context.DeadlineExceeded)
	network.Heal()
	renewed(t, ballot)
	acknowledge(t, ballot, "again")
	requireLeader(t, follower, "a", "again")
	require.Equal(t, []string{"own", "next"}, values(t, follower, "a"))
	network.Cut()
	query("GRANT EXECUTE ON FUNCTION expire TO " + candidateRole)
	require.NoError(t, next.Wait(soon(t)))
}

// Without the right to create a schema, a candidate is told what to do.
func TestNoRightToCreate(t *testing.T) {
	t.Parallel()
	schema, query := newSchema(t)
	query("CREATE ROLE poor LOGIN")
	st := open(t, postgres.Config{Schema: schema, User: "poor"})
	require.Empty(t, values(t, st, "a"), "nothing is kept yet")
	_, err := st.Cast(soon(t), "a", "own")
	require.ErrorIs(t, err, store.ErrDenied)
	for _, part := range []string{"leadership schema postgres", `"poor"`, "schema " + schema, "permission denied for database"} {
		require.ErrorContains(t, err, part)
	}
	query(schemaSQL(t, schema) + "GRANT USAGE ON SCHEMA " + schema + " TO poor; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema + " TO poor")
	castFirst(t, st, "a", "own")
}

// A layout that the program does not know is refused.
func TestLayout(t *testing.T) {
	t.Parallel()
	schema, query := ownSchema(t)
	query("UPDATE service SET layout = 2")
	_, castErr := open(t, postgres.Config{Schema: schema}).Cast(soon(t), "a", "own")
	_, readErr := storetest.Leader(soon(t), open(t, postgres.Config{Schema: schema}), "a", nil)
	for _, err := range []error{castErr, readErr} {
		requireInvalid(t, err, "schema", "layout 2", "layout 1")
	}
}

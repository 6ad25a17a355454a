package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// TestMarkAfterAFailover: a peer has seen a mark for the TTL. The holder's next renewal is lost in a failover, so the
// mark is the same on the new primary. The holder's lease goes on, so the peer must not end the session. The update of
// service stands for the failover: the server finds itself on another timeline.
func TestMarkAfterAFailover(t *testing.T) {
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	schema, err := postgres.Schema("")
	require.NoError(t, err)
	srv.Query(t, schema)
	srv.Query(t, "SELECT leadership.open('holder', 3000, 7)")
	srv.Query(t, "SELECT leadership.enter('holder', 'x', 'nonce', 0, 1, 'value')")
	require.Equal(t, "6", srv.Query(t, "SELECT mark FROM leadership.queue('x', null)"))
	srv.Query(t, "UPDATE leadership.service SET timeline = 0")
	require.Equal(t, "1|2", srv.Query(t, "SELECT * FROM leadership.hello()"))

	require.Equal(t, "f", srv.Query(t, "SELECT leadership.expire('holder', 6)"), "the session was ended by an earlier mark")
	for _, rows := range []string{"queue('x', null)", "look('{1}', '{}', '{}')", "renew('pause 2', 0) r WHERE r.id = 'holder'"} {
		mark := srv.Query(t, "SELECT mark FROM leadership."+rows)
		require.NotEqual(t, "6", mark, rows)
		require.Equal(t, "5", mark, "%s: no other mark is expired", rows)
	}
	require.Equal(t, "pause", srv.Query(t, "SELECT outcome FROM leadership.enter('holder', 'y', 'second', 0, 2, 'value')"))
	require.Equal(t, "t", srv.Query(t, "SELECT leadership.expire('holder', 5)"))
}

// TestNumbersAfterAFailover: tokens and revisions go on above all that might have been lost.
func TestNumbersAfterAFailover(t *testing.T) {
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	schema, err := postgres.Schema("")
	require.NoError(t, err)
	srv.Query(t, schema)
	srv.Query(t, "SELECT setval('leadership.numbers', 1099511627000)")
	require.Equal(t, "1099511627001", srv.Query(t, "SELECT leadership.number()"))
	srv.Query(t, "UPDATE leadership.service SET timeline = 0")
	srv.Query(t, "SELECT leadership.hello()")
	srv.Query(t, "SELECT setval('leadership.numbers', 1, false)") // of a copy that lacks all
	require.Equal(t, "1099511627777", srv.Query(t, "SELECT leadership.number()"))
}

// TestEpochOfAPromotedStandby: a failover has raised the epoch, and the next one loses that. The epoch is not below the
// timeline, so it is not the lost one again: a program that was told the lost one sees that the server has failed over.
func TestEpochOfAPromotedStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	schema, err := postgres.Schema("")
	require.NoError(t, err)
	p.primary.Query(t, schema)
	require.NoError(t, p.standby.CatchUp(soon(t)))
	require.NoError(t, p.standby.Promote(soon(t)))
	next := p.standby.Standby(t, testserver.PostgresConfig{}, false)
	require.NoError(t, next.Disconnect(soon(t)))
	require.Equal(t, "1|2", p.standby.Query(t, "SELECT * FROM leadership.hello()"))
	require.NoError(t, next.Promote(soon(t)))
	require.Equal(t, "1|3", next.Query(t, "SELECT * FROM leadership.hello()"))
}

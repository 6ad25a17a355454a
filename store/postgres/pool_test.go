package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// A leader's own transaction holds up the removal of its ballot. The other requests of the store soon have a connection
// of their own, however long the TTL is.
func TestRequestsBehindOneThatWaits(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	st := open(t, postgres.Config{Addresses: srv.Addrs(), TTL: 10 * time.Minute})
	ballot := castFirst(t, st, "a", "own")
	stands, err := postgres.Fence(ballot)
	require.NoError(t, err)
	tx, err := connect(t, srv, nil).Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), stands.SQL, stands.Args...)
	require.NoError(t, err)
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- ballot.Withdraw(context.Background()) }()
	eventually(t, func() bool {
		return srv.Query(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
	}, "the removal waits")
	start := time.Now()
	castFirst(t, st, "b", "own")
	require.Less(t, time.Since(start), 10*time.Second)
	require.NoError(t, tx.Commit(soon(t)))
	require.NoError(t, receive(t, withdrawn, "the end of the removal"))
}

// A request waits for a lock for too long. The server gives it up, and says so before the store gives up the
// connection: the request was not carried out, and no connection is lost, which would make the store read everything
// again.
func TestLockWaitIsAnswered(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{})
	d, err := postgres.NewDriver(postgres.Config{Addresses: srv.Addrs(), User: testserver.PostgresUser, Database: "postgres", TTL: ttl})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, _, err := d.Open(soon(t))
	require.NoError(t, err)
	tx, err := connect(t, srv, nil).Begin(soon(t))
	require.NoError(t, err)
	_, err = tx.Exec(soon(t), "SELECT pg_advisory_xact_lock(hashtext('leadership'), hashtext('a'))")
	require.NoError(t, err)
	_, err = s.Enter(soon(t), "a", engine.Nonce{Name: "n"}, "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome)
	require.Zero(t, postgres.Losses(d))
}

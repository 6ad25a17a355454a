package zookeeper_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// The only server restarts. The ballots still stand, and the store is connected again soon after the server is back.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	meter := stall.Watch(t)
	server := faultyServer(t)
	st := open(t, zookeeper.Config{Servers: server.Addrs()})
	var short []*zookeeper.Store // of TTLs which the client library's waits of 1 s could lock into step with
	for _, d := range []time.Duration{time.Second, 3 * time.Second / 2, ttl, 3 * time.Second} {
		short = append(short,
			open(t, zookeeper.Config{Servers: server.Addrs(), TTL: d}),
			open(t, zookeeper.Config{Servers: []string{"127.0.0.1:1", server.Addrs()[0], "127.0.0.1:2"}, TTL: d}))
	}
	election := newElection()
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	for range 2 {
		require.NoError(t, server.Member(0).Kill())
		require.NoError(t, server.Member(0).Start(soon(t)))
		start := time.Now()
		for _, st := range append(short, st) {
			require.Equal(t, []string{"own"}, values(t, st, election))
		}
		// The store takes less than half a second; the rest is for a server that has just started on a busy machine.
		require.Less(t, time.Since(start), 6*time.Second+meter.Stalled(), "%v", meter)
		require.NoError(t, b.Err())
		leader, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		require.Equal(t, "own", leader.Value)
	}
}

// A server that does not answer the handshake is given up long before the session would expire.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	meter := stall.Watch(t)
	silent := storetest.SilentServer(t)
	var toSilent atomic.Int32 // the first dials go to the silent server, whichever server the client library chose
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		address := sharedServer(t).Addrs()[0]
		if toSilent.Add(-1) >= 0 {
			address = silent
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	tp := newTap(t, dial)
	toSilent.Store(2)
	start := time.Now()
	st := open(t, zookeeper.Config{Servers: append(sharedServer(t).Addrs(), silent), TTL: middling, Dial: tp.Dial})
	castFirst(t, st, newElection(), "own")
	require.Less(t, time.Since(start), middling/2+meter.Stalled(), "two silent handshakes, a fifth of the TTL each, and a pause; %v", meter)

	toSilent.Store(1)
	tp.breakOff()
	start = time.Now()
	confirmedAgain(t, st)
	require.Less(t, time.Since(start), middling/2+meter.Stalled(), "%v", meter)
}

// Adding the identity fails, or is repeated on a later connection and fails there. The store tries again on the next
// connection.
func TestConnectionBreaksWhileAuthenticating(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]fate{"write fails": failWrite, "reply lost": loseReply, "request lost": loseRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t, nil)
			config := zookeeper.Config{Dial: tp.Dial, User: "u", Password: "p", Root: "/of the user"} // the default root belongs to all
			first := tp.catch(t, fate, opSetAuth, "digest")
			st := open(t, config)
			b := castFirst(t, st, newElection(), "own")
			receive(t, first.caught, "the first identification")
			again := tp.catch(t, fate, opSetAuth, "digest")
			tp.breakOff()
			receive(t, again.caught, "the identification on the next connection")
			confirmedAgain(t, st)
			require.NoError(t, b.Err())
			require.NoError(t, b.Withdraw(soon(t)))
		})
	}
}

// A member of the ensemble to which the store connects later grants less than those before. The guarantees of the old
// timeout do not hold any more, so the store ends the session with its ballots, and a campaign reports why.
func TestReconnectionIsGrantedLess(t *testing.T) {
	t.Parallel()
	election := newElection()
	st, tp := openTapped(t)
	b := castFirst(t, st, election, "own")
	tp.grant(ttl)
	refused := time.Now()
	tp.breakOff()
	lost(t, b)
	eventually(t, func() bool { return b.Lease().Remaining() == 0 }, "the end of the lease") // the ballot learns first
	_, err := st.Cast(soon(t), election, "own")
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, ttl.String())
	eventually(t, func() bool { return len(list(t, operator(t), dir(election))) == 0 }, "the old ballot blocks no other")
	require.Less(t, time.Since(refused), long, "the session was closed")
}

// The service comes back with an earlier state, as after the loss of its disk. The client library refuses to connect to
// a server that knows less than it has seen; the store must recover from that.
func TestServerLosesItsData(t *testing.T) {
	t.Parallel()
	server := faultyServer(t)
	member := server.Member(0)
	st := open(t, zookeeper.Config{Servers: server.Addrs(), TTL: ttl})
	castFirst(t, st, newElection(), "own")
	confirmedAgain(t, st)
	require.NoError(t, member.Kill())
	require.NoError(t, member.RemoveData())
	require.NoError(t, member.Start(soon(t)))
	castFirst(t, st, newElection(), "own")
}

// An operator restores a copy in which a ballot stands that has been withdrawn since, and whose session lives. The
// ballot must not block other candidates, although its store has no candidate any more.
func TestRestoredCopyHasAWithdrawnBallot(t *testing.T) {
	t.Parallel()
	server := faultyServer(t)
	config := zookeeper.Config{Servers: server.Addrs()}
	election := newElection()
	st := open(t, config)
	member := server.Member(0)
	b := castFirst(t, st, election, "withdrawn")
	acknowledge(t, b, "withdrawn")
	require.NoError(t, member.Stop())
	require.NoError(t, member.SaveData())
	require.NoError(t, member.Start(soon(t)))
	require.NoError(t, b.Withdraw(soon(t)))
	for range 20 { // and goes ahead of the copy
		require.NoError(t, castFirst(t, st, election, "later").Withdraw(soon(t)))
	}
	require.NoError(t, member.Stop())
	require.NoError(t, member.RestoreData())
	require.NoError(t, member.Start(soon(t)))
	other := contend(t, open(t, config), election, "other")
	receive(t, other.Terms, "the term")
	confirmedAgain(t, st)
	require.Equal(t, []string{"other"}, values(t, st, election))
}

// The same, but the store was connected all the time, or again before it could notice. No ballot of the store accounts for
// the node, so the session ends, and the candidate stands again.
func TestBallotWithoutAnOwnerIsRemoved(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, zookeeper.Config{})
	putBack(t, st, election)
	again := contend(t, st, election, "again")
	receive(t, again.Terms, "the term")
	require.Equal(t, []string{"again"}, values(t, st, election))
}

// putBack casts and withdraws a ballot, and makes its node again in the store's session.
func putBack(t *testing.T, st *zookeeper.Store, election string) {
	t.Helper()
	b := castFirst(t, st, election, "withdrawn")
	path := find(t, operator(t), election, "withdrawn")
	require.NoError(t, b.Withdraw(soon(t)))
	conn, err := st.Conn(soon(t))
	require.NoError(t, err)
	_, err = conn.Create(path, []byte("withdrawn"), zk.FlagEphemeral, world)
	require.NoError(t, err)
}

package zookeeper_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The only server restarts. The ballots still stand, and the store is connected again soon after the server is back.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := faultyServer(t)
	meter := stall.Watch(t)
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
	servers := append(sharedServer(t).Addrs(), silent)
	start := time.Now()
	st := open(t, zookeeper.Config{Servers: servers, TTL: middling, Dial: tp.Dial})
	castFirst(t, st, newElection(), "own")
	require.Less(t, time.Since(start), middling/2+meter.Stalled(), "two silent handshakes, a fifth of the TTL each, and a pause; %v", meter)

	toSilent.Store(1)
	tp.breakOff()
	start = time.Now()
	confirmedAgain(t, st)
	require.Less(t, time.Since(start), middling/2+meter.Stalled(), "%v", meter)
}

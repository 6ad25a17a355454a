package zookeeper_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The server is away for longer than the TTL while one candidate leads and others wait. None leads meanwhile, one leads
// afterwards, and each casts one ballot again.
func TestOutageLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	server := faultyServer(t)
	member := server.Member(0)
	election := newElection()
	config := zookeeper.Config{Servers: server.Addrs(), TTL: ttl}
	var all []*contender
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, contend(t, open(t, config), election, name))
	}
	oneLeader(t, all...)
	st := open(t, config)
	follower, heard := newFollower(t, st, election), ""
	for name, fault := range map[string]struct{ down, up func() error }{
		"killed": {member.Kill, func() error { return member.Start(soon(t)) }},
		"paused": {member.Pause, member.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			leaderAmong(t, all...)
			eventually(t, func() bool { return len(values(t, st, election)) == len(all) }, "all stand")
			require.NoError(t, fault.down())
			stepDown(t, time.Now().Add(ttl), all...) // another may lead by now
			require.Never(t, func() bool {
				return all[0].IsLeader() || all[1].IsLeader() || all[2].IsLeader()
			}, ttl, 10*time.Millisecond)
			require.NoError(t, fault.up())
			leaderAmong(t, all...)
			eventually(t, func() bool { return len(values(t, st, election)) == len(all) }, "all stand again")
			eventually(t, func() bool {
				select {
				case leader := <-follower:
					heard = leader.Value
				default:
				}
				return heard == leaderAmong(t, all...).Value // which is not sent again if it was the last to be read
			}, "the follower is told of the leader")
		})
	}
}

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

// A store that has worked before reports what is wrong now: it does not ask about TLS, and does not mention connections
// that it closed itself.
func TestErrorOfAStoreThatHasWorked(t *testing.T) {
	t.Parallel()
	silent := storetest.SilentServer(t)
	for name, c := range map[string]struct{ address, want string }{
		"refused": {"127.0.0.1:1", "connection refused"},
		"silent":  {silent, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var elsewhere atomic.Bool
			tp := newTap(t, func(ctx context.Context, network, address string) (net.Conn, error) {
				if elsewhere.Load() {
					address = c.address
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			})
			st := open(t, zookeeper.Config{Dial: tp.Dial})
			require.NoError(t, castFirst(t, st, newElection(), "own").Withdraw(soon(t)))
			elsewhere.Store(true)
			tp.breakOff()
			var err error
			eventually(t, func() bool {
				_, err = st.Cast(within(t, time.Second), newElection(), "own")
				return err == nil || strings.Contains(err.Error(), c.want)
			}, "an error that says %q", c.want)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotContains(t, err.Error(), "TLS")
			require.NotContains(t, err.Error(), "closed network connection")
		})
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

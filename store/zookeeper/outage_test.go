package zookeeper_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The server is not there when a candidate and a follower start. Both work once it is there, and stopping them before
// that leaves nothing behind.
func TestServerComesUpLater(t *testing.T) {
	t.Parallel()
	server := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})
	require.NoError(t, server.Member(0).Kill())
	election := newElection()
	config := zookeeper.Config{Servers: server.Addrs()}
	gone := contend(t, open(t, config), election, "gives up before")
	follower := newFollower(t, open(t, config), election)
	c := contend(t, open(t, config), election, "own")
	f, err := leadership.NewFollower(open(t, config), election, nil)
	require.NoError(t, err)
	f.Start()
	require.Never(t, func() bool { return c.IsLeader() || gone.IsLeader() }, ttl, 10*time.Millisecond)
	start := time.Now()
	gone.End()
	f.Stop()
	require.Less(t, time.Since(start), closeLimit)
	require.ErrorIs(t, receive(t, gone.Ended, "Run's end"), context.Canceled)

	require.NoError(t, server.Member(0).Start(soon(t)))
	receive(t, c.Terms, "the term")
	for value := receive(t, follower, "the leader"); value != "own"; value = receive(t, follower, "the leader") {
		require.Equal(t, "", value)
	}
	require.Equal(t, []string{"own"}, values(t, open(t, config), election))
}

// The Error hook and the log report that the service can't be reached.
func TestOutageIsVisible(t *testing.T) {
	silent := storetest.SilentServer(t)
	for name, server := range map[string]string{"refused": "127.0.0.1:1", "silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := contend(t, open(t, zookeeper.Config{Servers: []string{server}}), newElection(), "own")
			eventually(t, func() bool { return len(c.Errors()) > 0 }, "the hook is told")
			require.ErrorIs(t, c.Errors()[0], store.ErrUnavailable)
		})
	}
}

// If the caller gives up a campaign, the error says what it was waiting for.
func TestCampaignSaysWhatItWaitsFor(t *testing.T) {
	st := open(t, zookeeper.Config{Servers: []string{"127.0.0.1:1"}})
	_, err := st.Cast(within(t, ttl), newElection(), "own")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "connection refused")
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
			var elsewhere atomic.Bool
			tp := newTap(t, func(ctx context.Context, network, address string) (net.Conn, error) {
				if elsewhere.Load() {
					address = c.address
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			})
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: tp.Dial})
			require.NoError(t, castFirst(t, st, newElection(), "own").Withdraw(soon(t)))
			elsewhere.Store(true)
			tp.breakOff()
			_, err := st.Cast(within(t, long/4), newElection(), "own")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "TLS")
			require.NotContains(t, err.Error(), "closed network connection")
		})
	}
}

// The server is away for longer than the TTL while one candidate leads and others wait. None leads meanwhile, one leads
// afterwards, and each casts one ballot again.
func TestOutageLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	server := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})
	member := server.Member(0)
	election := newElection()
	config := zookeeper.Config{Servers: server.Addrs()}
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
				case heard = <-follower:
				default:
				}
				return heard == leaderAmong(t, all...).Value // which is not sent again if it was the last to be read
			}, "the follower is told of the leader")
		})
	}
}

// The server goes away while a leader resigns. Resign returns when the lease is over. The ballot is removed as soon as
// the server is back, in the same session, which survived here.
func TestOutageDuringResignation(t *testing.T) {
	t.Parallel()
	server := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})
	election := newElection()
	config := zookeeper.Config{Servers: server.Addrs(), TTL: long}
	st := open(t, config)
	c, err := leadership.NewCandidate(st, election, "own", nil)
	require.NoError(t, err)
	term, err := c.Campaign(soon(t))
	require.NoError(t, err)
	require.NoError(t, term.Acknowledge(soon(t)))
	witness := castFirst(t, st, newElection(), "stands as long as the session does")
	require.NoError(t, server.Member(0).Kill())
	start := time.Now()
	require.Error(t, term.Withdraw(within(t, time.Second)))
	require.Less(t, time.Since(start), closeLimit)
	require.False(t, c.IsLeader())
	require.NoError(t, server.Member(0).Start(soon(t)))
	other := open(t, config)
	eventually(t, func() bool { return len(values(t, other, election)) == 0 }, "the ballot is removed")
	require.NoError(t, witness.Err(), "not with its session")
	leader, err := storetest.Leader(soon(t), other, election, nil)
	require.NoError(t, err)
	require.Zero(t, leader)
	c.Stop()
}

// The session expires during an outage. All of its ballots are lost, their leases have ended before, and the store
// opens the next session by itself.
func TestSessionExpires(t *testing.T) {
	tp := newTap(t, nil)
	var gate sync.RWMutex // held by the test: no connection can be opened
	dial := tp.dial
	tp.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		gate.RLock()
		defer gate.RUnlock()
		return dial(ctx, network, address)
	}
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), Dial: tp.Dial})
	conn := operator(t)
	elections := []string{newElection(), newElection(), newElection()}
	var ballots []store.Ballot
	for _, election := range elections {
		ballots = append(ballots, castFirst(t, st, election, "own"))
	}
	gate.Lock()
	tp.breakOff()
	eventually(t, func() bool { return len(list(t, conn, dir(elections[0]))) == 0 }, "the session expires")
	for _, b := range ballots {
		require.Zero(t, b.Lease().Remaining(), "the lease ends before the session does")
		_, holds := b.Lease().Span()
		require.False(t, holds)
	}
	gate.Unlock()
	for i, b := range ballots {
		lost(t, b)
		_, err := b.Acknowledge(soon(t), "own")
		require.ErrorIs(t, err, store.ErrLost)
		require.NoError(t, b.Withdraw(soon(t)), "it is gone")
		next := castFirst(t, st, elections[i], "own")
		require.Greater(t, next.Token(), b.Token())
	}
}

// The leader's requests arrive, but no answer comes back, and each handshake prolongs the session. One handshake ends
// it, so that the next in line does not wait for as long as that goes on.
func TestRepliesAreLostForLong(t *testing.T) {
	network := conformance.NewNetwork()
	election := newElection()
	a := contend(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), Dial: network.Dial}), election, "a")
	term := receive(t, a.Terms, "a's term")
	b := contend(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs()}), election, "b")
	eventually(t, func() bool { return len(values(t, b.Store, election)) == 2 }, "b stands")
	network.LoseReplies()
	start := time.Now()
	receive(t, b.Terms, "b's term")
	require.Less(t, time.Since(start), 5*ttl)
	require.Error(t, term.Context().Err())
	network.Heal()
	eventually(t, func() bool { return len(values(t, b.Store, election)) == 2 }, "a stands again")
	require.True(t, b.IsLeader())
}

// A watch was requested while there had been no connection for long, and a later request sets it. When there is a
// connection again, a read of the leader and a candidate's read go on at once.
func TestWatchIsAskedForInAnOutage(t *testing.T) {
	election := newElection()
	var away atomic.Bool
	tp := newTap(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: tp.Dial})
	confirmedAgain(t, st)
	away.Store(true)
	tp.breakOff()
	read := make(chan error, 1)
	go func() {
		_, err := storetest.Leader(soon(t), st, election, nil)
		read <- err
	}()
	select {
	case <-time.After(2 * time.Second): // twice as long as a request waits for a connection
	case err := <-read:
		require.FailNow(t, "there is no connection", "%v", err)
	}
	away.Store(false)
	require.NoError(t, receive(t, read, "the leader"))
}

package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A whole election over connections that belong to the caller. Afterwards they are as before.
func TestCallersConnection(t *testing.T) {
	election := newElection()
	conns := []*zk.Conn{operator(t), operator(t)}
	var all []*contender
	var stores []*zookeeper.Store
	for i, conn := range conns {
		st := open(t, zookeeper.Config{Conn: conn, TTL: long})
		stores = append(stores, st)
		all = append(all, contend(t, st, election, string(rune('a'+i))))
		receiveFirst(t, all)
		eventually(t, func() bool { return len(list(t, conn, dir(election))) == i+2 }, "the ballot") // and one leader_ack
	}
	oneLeader(t, all...)
	follower := newFollower(t, stores[1], election)
	require.Equal(t, "a", receive(t, follower, "the leader"))
	require.True(t, all[0].IsLeader())
	for range 3 {
		takesOver(t, all[1], all[0])
		require.Equal(t, "b", afterDeath(t, follower, ""))
		eventually(t, func() bool { return len(values(t, stores[0], election)) == 2 }, "a stands again, behind b")
		takesOver(t, all[0], all[1])
		require.Equal(t, "a", afterDeath(t, follower, ""))
		eventually(t, func() bool { return len(values(t, stores[0], election)) == 2 }, "b stands again, behind a")
	}
	sessions := []int64{conns[0].SessionID(), conns[1].SessionID()}
	require.NoError(t, stores[0].Close())
	receive(t, all[1].Terms, "b leads: the ballots of a closed store are gone, though its session is not")
	require.NoError(t, stores[1].Close())
	require.Empty(t, list(t, conns[0], dir(election)))
	for i, conn := range conns {
		require.Equal(t, zk.StateHasSession, conn.State())
		require.Equal(t, sessions[i], conn.SessionID())
	}
}

// takesOver makes a leader resign until the next one leads. On a busy machine the next one's lease might end before it
// has acknowledged: then the first one leads again.
func takesOver(t *testing.T, next, leader *contender) {
	t.Helper()
	leader.Resign()
	for {
		select {
		case <-next.Terms:
			return
		case <-leader.Terms:
			t.Logf("%s leads once more", leader.Value)
			leader.Resign()
		case <-time.After(storetest.Watchdog):
			t.Fatalf("waited in vain until %s leads", next.Value)
		}
	}
}

// receiveFirst waits for the first term of the first contender, once.
func receiveFirst(t *testing.T, all []*contender) {
	t.Helper()
	if len(all) == 1 {
		receive(t, all[0].Terms, "the first term")
	}
}

// The store learns that the caller's session has ended, and goes on in the next session.
func TestCallersSessionEnds(t *testing.T) {
	election := newElection()
	tp := newTap(t, nil)
	conn := connectThrough(t, tp.Dial, ttl, sharedServer(t).Addrs()...)
	st := open(t, zookeeper.Config{Conn: conn})
	for range 2 {
		b := castFirst(t, st, election, "own")
		acknowledge(t, b, "own")
		tp.endSession(t, sharedServer(t).Addrs()[0])
		lost(t, b)
		eventually(t, func() bool { return b.Lease().Remaining() == 0 }, "the end of the lease") // the ballot learns first
	}
	castFirst(t, st, election, "own")
	require.Equal(t, []string{"own"}, values(t, st, election))
}

// The caller's connection breaks and is restored in time: nothing is lost, and events are still noticed.
func TestCallersConnectionBreaks(t *testing.T) {
	election := newElection()
	tp := newTap(t, nil)
	conn := connectThrough(t, tp.Dial, long, sharedServer(t).Addrs()...)
	st := open(t, zookeeper.Config{Conn: conn, TTL: long})
	before := castFirst(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "before")
	b := cast(t, st, election, "own")
	for range 3 {
		tp.breakOff()
		confirmedAgain(t, st)
		waiting(t, b)
	}
	require.NoError(t, before.Withdraw(soon(t)))
	require.NoError(t, b.Wait(soon(t)))
	require.NoError(t, operator(t).Delete(find(t, conn, election, "own"), -1))
	lost(t, b)
}

// The ballot ahead and the waiter's own ballot are deleted at once. Each watch has a goroutine, so events come in any
// order.
func TestCallersConnectionOwnBallotDeleted(t *testing.T) {
	conn := operator(t)
	tp := newTap(t, nil)
	st := open(t, zookeeper.Config{Conn: connectThrough(t, tp.Dial, long, sharedServer(t).Addrs()...), TTL: long})
	other := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	for i := range 60 {
		election := newElection()
		castFirst(t, other, election, "before")
		check := neverFirst(t, cast(t, st, election, "own"))
		own, before := find(t, conn, election, "own"), find(t, conn, election, "before")
		letGo := func() {}
		if i%2 == 0 { // while the waiter reads
			read := tp.catch(t, hold, opGetData, before)
			_, err := conn.Set(before, []byte("before"), -1)
			require.NoError(t, err)
			receive(t, read.caught, "the waiter reads")
			letGo = read.letGo
		}
		_, err := conn.Multi(deletions["deleted"](own, before)...)
		require.NoError(t, err)
		letGo()
		check()
	}
}

// Close comes while a campaign is under way. The ballot that is created a moment later is removed from the session,
// which goes on with the caller's connection.
func TestCloseDuringCampaignOnCallersConnection(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	tp := newTap(t, nil)
	callers := connectThrough(t, tp.Dial, long, sharedServer(t).Addrs()...)
	st, err := zookeeper.Open(zookeeper.Config{Conn: callers, TTL: long})
	require.NoError(t, err)
	require.NoError(t, castFirst(t, st, newElection(), "so that there is a session").Withdraw(soon(t)))
	request := tp.catch(t, hold, opCreate, dir(election)+"/")
	campaign, closed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := st.Cast(soon(t), election, "own"); campaign <- err }()
	receive(t, request.caught, "the request")
	go func() { closed <- st.Close() }()
	require.ErrorIs(t, receive(t, campaign, "the campaign's end"), store.ErrClosed)
	request.letGo()
	require.NoError(t, receive(t, closed, "the end of Close"))
	later := cast(t, open(t, zookeeper.Config{Conn: callers, TTL: long}), election, "later")
	require.NoError(t, later.Wait(within(t, long)), "a ballot without an owner blocks the election as long as the session lives")
}

// The same with a resignation that was given up: its ballot must still be removed in the background.
func TestCloseWithOrphansOnCallersConnection(t *testing.T) {
	election := newElection()
	tp := newTap(t, nil)
	callers := connectThrough(t, tp.Dial, long, sharedServer(t).Addrs()...)
	st, err := zookeeper.Open(zookeeper.Config{Conn: callers, TTL: long})
	require.NoError(t, err)
	b := castFirst(t, st, election, "own")
	removal := tp.catch(t, loseRequest, opDelete, dir(election))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, b.Withdraw(ctx), context.Canceled)
	receive(t, removal.caught, "a first try in the background")
	require.NoError(t, st.Close())
	later := cast(t, open(t, zookeeper.Config{Conn: callers, TTL: long}), election, "later")
	require.NoError(t, later.Wait(within(t, long)), "a ballot without an owner blocks the election as long as the session lives")
}

// Close returns soon while the caller's connection is down, however long the outage lasts.
func TestCloseWhileCallersConnectionIsDown(t *testing.T) {
	t.Parallel()
	server := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})
	network := conformance.NewNetwork()
	for name, fault := range map[string]struct{ down, up func() error }{
		"server paused": {server.Member(0).Pause, server.Member(0).Resume},
		"line cut":      {func() error { network.Cut(); return nil }, func() error { network.Heal(); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			conn := connectThrough(t, network.Dial, middling, server.Addrs()...)
			st, err := zookeeper.Open(zookeeper.Config{Conn: conn, TTL: middling})
			require.NoError(t, err)
			election := newElection()
			b := castFirst(t, st, election, "own")
			require.NoError(t, fault.down())
			defer func() { require.NoError(t, fault.up()) }()
			eventually(t, func() bool { return conn.State() != zk.StateHasSession }, "the client library notices")
			closed := make(chan error, 1)
			start := time.Now()
			go func() { closed <- st.Close() }()
			select {
			case err := <-closed:
				require.Error(t, err, "the ballot could not be removed")
				require.Less(t, time.Since(start), closeLimit)
			case <-time.After(2 * closeLimit):
				t.Error("Close has not returned")
				defer func() { <-closed }() // once the server is back
			}
			require.ErrorIs(t, b.Err(), store.ErrLost)
		})
	}
}

// The caller closes its connection before the store. A campaign reports that, and does not wait.
func TestCallerClosesTheConnection(t *testing.T) {
	conn := operator(t)
	st, err := zookeeper.Open(zookeeper.Config{Conn: conn, TTL: ttl})
	require.NoError(t, err)
	defer st.Close() // with an error: it can't know whether its ballot is gone
	b := castFirst(t, st, newElection(), "own")
	conn.Close()
	eventually(t, func() bool { return b.Lease().Remaining() == 0 }, "the end of the lease")
	_, err = storetest.Campaign(soon(t), st, newElection(), "own")
	require.ErrorIs(t, err, store.ErrClosed, "the connection never comes back")
}

// The first lease on a caller's connection begins when the ensemble's leader certainly knows of a touch, with any
// grace: TTL/4 after the first confirmation at the earliest, not with the next answer.
func TestCallersFirstLease(t *testing.T) {
	for name, grace := range map[string]time.Duration{"least": long / 12, "default": long / 3, "most": long/2 - 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := operator(t)
			start := time.Now()
			st := open(t, zookeeper.Config{Conn: conn, TTL: long, Grace: grace})
			b := castFirst(t, st, newElection(), "own")
			eventually(t, func() bool { return b.Lease().Remaining() > 0 }, "the lease")
			require.GreaterOrEqual(t, time.Since(start), long/4)
			require.LessOrEqual(t, b.Lease().Last().Sent.Sub(start), long, "it is not late either")
		})
	}
}

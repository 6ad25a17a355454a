package zookeeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// openTapped opens a store on the shared server whose line is tapped, with a TTL that outlasts the test: what goes
// does not go with the session.
func openTapped(t *testing.T) (*zookeeper.Store, *tap) {
	t.Helper()
	tp := newTap(t, nil)
	return open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: tp.Dial}), tp
}

// Whatever request or reply of a campaign is lost, one ballot stands afterwards, and it leads.
func TestCampaignLosesAMessage(t *testing.T) {
	conn := operator(t)
	for name, op := range map[string]string{"create": opCreate, "list": opList, "read": opGetData} {
		for fateName, fate := range map[string]fate{"reply": loseReply, "request": loseRequest} {
			t.Run(name+" "+fateName, func(t *testing.T) {
				election := newElection()
				makePath(t, conn, dir(election))
				st, tp := openTapped(t)
				what := dir(election)
				if op == opCreate {
					what += "/" // the ballot
				}
				c := tp.catch(t, fate, op, what)
				b := castFirst(t, st, election, "the only one")
				receive(t, c.caught, "the request")
				require.Len(t, list(t, conn, dir(election)), 1)
				require.Equal(t, []string{"the only one"}, values(t, st, election))
				require.NoError(t, b.Withdraw(soon(t)))
				require.Empty(t, list(t, conn, dir(election)))
			})
		}
	}
}

// The replies are lost for longer than one try takes, also those to the search for the ballot.
func TestCampaignLosesRepliesForAWhile(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	network := conformance.NewNetwork()
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: network.Dial})
	castFirst(t, st, newElection(), "so that there is a session")
	network.LoseReplies()
	cast := make(chan error, 1)
	go func() {
		b, err := st.Cast(soon(t), election, "the only one")
		if err == nil {
			err = b.Wait(soon(t))
		}
		cast <- err
	}()
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 1 }, "the ballot is cast")
	sent := network.Requests()
	eventually(t, func() bool { return network.Requests() > sent+1 }, "more tries")
	network.Heal()
	require.NoError(t, receive(t, cast, "the campaign"))
	require.Equal(t, []string{"the only one"}, values(t, st, election))
}

// The caller gives up while the reply is outstanding. When the server can be reached again, the same session removes
// the ballot that was cast.
func TestCampaignGivenUpLeavesNothing(t *testing.T) {
	conn := operator(t)
	t.Run("reply lost", func(t *testing.T) {
		election := newElection()
		makePath(t, conn, dir(election))
		network := conformance.NewNetwork()
		st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: network.Dial})
		witness := castFirst(t, st, newElection(), "stands as long as the session does")
		network.LoseReplies()
		ctx, cancel := context.WithCancel(context.Background())
		given := make(chan error, 1)
		go func() {
			_, err := st.Cast(ctx, election, "given up")
			given <- err
		}()
		eventually(t, func() bool { return len(list(t, conn, dir(election))) == 1 }, "the ballot is cast")
		cancel()
		require.ErrorIs(t, receive(t, given, "the end of the call"), context.Canceled)
		network.Heal()
		eventually(t, func() bool { return len(list(t, conn, dir(election))) == 0 }, "the ballot is removed")
		require.NoError(t, witness.Err(), "not with its session")
		eventually(t, func() bool { n, err := st.Creations(soon(t)); return err == nil && n == 0 }, "nothing is kept of it")
	})
	t.Run("request sent later", func(t *testing.T) {
		election := newElection()
		makePath(t, conn, dir(election))
		st, tp := openTapped(t)
		witness := castFirst(t, st, newElection(), "stands as long as the session does")
		c := tp.catch(t, hold, opCreate, dir(election)+"/")
		ctx, cancel := context.WithCancel(context.Background())
		given := make(chan error, 1)
		go func() {
			_, err := st.Cast(ctx, election, "given up")
			given <- err
		}()
		receive(t, c.caught, "the request")
		cancel()
		require.ErrorIs(t, receive(t, given, "the end of the call"), context.Canceled)
		require.Empty(t, list(t, conn, dir(election)))
		c.letGo()
		later := cast(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "later")
		require.NoError(t, later.Wait(soon(t)), "the orphan must not block those behind it")
		eventually(t, func() bool { return len(list(t, conn, dir(election))) == 1 }, "the orphan is removed")
		require.NoError(t, witness.Err(), "not with its session")
	})
}

// The session ends right after the ballot was created in it, before the reply came. The ballot that Campaign returns is
// one of the next session.
func TestSessionEndsDuringCampaign(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	st, tp := openTapped(t)
	before := castFirst(t, st, newElection(), "in the first session")
	c := tp.catch(t, holdReply, opCreate, dir(election)+"/")
	done := make(chan error, 1)
	var b store.Ballot
	go func() {
		var err error
		b, err = st.Cast(soon(t), election, "ours")
		done <- err
	}()
	receive(t, c.arrived, "the reply")
	tp.endSession(t, sharedServer(t).Addrs()[0])
	c.letGo()
	require.NoError(t, receive(t, done, "the campaign"))
	lost(t, before)
	require.NoError(t, b.Wait(soon(t)))
	eventually(t, func() bool { _, ok := b.Lease().Span(); return ok }, "the lease of the new session")
	require.Equal(t, []string{"ours"}, values(t, st, election))
}

// A request waits for a connection until its session is over. The node that it creates belongs to the next session, and
// counts.
func TestRequestQueuedAcrossSessions(t *testing.T) {
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	network := conformance.NewNetwork()
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), Dial: network.Dial})
	before := castFirst(t, st, election, "in the first session")
	network.Cut()
	done := make(chan error, 1)
	var b store.Ballot
	go func() {
		var err error
		b, err = storetest.TryCast(soon(t), st, election, "in the second")
		done <- err
	}()
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 0 }, "the first session expires")
	require.Zero(t, before.Lease().Remaining())
	network.Heal()
	require.NoError(t, receive(t, done, "the campaign"))
	lost(t, before)
	require.NoError(t, b.Wait(soon(t)))
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 1 }, "what the first tries left is removed")
	require.Equal(t, []string{"in the second"}, values(t, st, election))
	require.Greater(t, b.Token(), before.Token())
	first := b.Lease().Last().Sent
	eventually(t, func() bool { return b.Lease().Last().Sent.After(first.Add(ttl / 2)) }, "some confirmations")
	require.NoError(t, b.Err())
}

// The connection breaks while Acknowledge waits for its reply. The caller is told that the outcome is unknown, and may
// call it again.
func TestAcknowledgeLosesItsReply(t *testing.T) {
	for name, fate := range map[string]fate{"reply": loseReply, "request": loseRequest} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			st, tp := openTapped(t)
			b := castFirst(t, st, election, "ours")
			c := tp.catch(t, fate, opMulti, "leader_ack")
			_, err := b.Acknowledge(soon(t), oddBytes)
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			receive(t, c.caught, "the request")
			leader := acknowledge(t, b, oddBytes)
			seen, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Equal(t, leader, seen)
			require.NoError(t, b.Withdraw(soon(t)))
			require.Empty(t, list(t, operator(t), dir(election)))
		})
	}
}

// The same with a candidate: Term.Acknowledge tries again by itself.
func TestCandidateAcknowledgesInSpiteOfALostReply(t *testing.T) {
	election := newElection()
	st, tp := openTapped(t)
	lostOnce := tp.catch(t, loseReply, opMulti, "leader_ack")
	c := contend(t, st, election, "ours")
	receive(t, c.Terms, "the acknowledgement")
	receive(t, lostOnce.caught, "the first request")
	require.True(t, c.IsLeader())
	require.True(t, errors.Is(errors.Join(c.Errors()...), store.ErrUnknownOutcome), "the hooks tell of it")
	leader, err := storetest.Leader(within(t, 10*time.Second), st, election, nil)
	require.NoError(t, err)
	require.Equal(t, "ours", leader.Value)
}

package zookeeper_test

import (
	"context"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Resigning deletes ballot and acknowledgement in one step: no client ever sees one without the other.
func TestResignationIsOneStep(t *testing.T) {
	election := newElection()
	st, tp := openTapped(t)
	b := castFirst(t, st, election, "ours")
	acknowledge(t, b, "ours")
	require.NoError(t, b.Withdraw(soon(t)))
	require.Equal(t, 1, tp.Count(opMulti, "leader_ack\xff")) // the version -1 follows the path: a deletion
	require.Zero(t, tp.Count(opDelete, dir(election)))
	require.Empty(t, list(t, operator(t), dir(election)))
	require.NoError(t, b.Withdraw(soon(t)), "again")
}

// The reply to the resignation is lost, and when the request is repeated the same process leads again. The newer ballot
// and its acknowledgement stay.
func TestResignationRepeatedLeavesTheNextAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		// acknowledge makes the first ballot's acknowledgement.
		acknowledge func(t *testing.T, tp *tap, b store.Ballot)
	}{
		{"acknowledged", func(t *testing.T, _ *tap, b store.Ballot) {
			acknowledge(t, b, "first")
		}},
		{"the acknowledgement's outcome unknown", func(t *testing.T, tp *tap, b store.Ballot) {
			lostReply := tp.catch(t, loseReply, opMulti, "leader_ack")
			_, err := b.Acknowledge(soon(t), "first")
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			receive(t, lostReply.arrived, "the reply")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			election := newElection()
			conn := operator(t)
			st, tp := openTapped(t)
			first := castFirst(t, st, election, "first")
			c.acknowledge(t, tp, first)
			second := cast(t, st, election, "second")
			path := find(t, conn, election, "first")

			tp.catch(t, loseReply, opMulti, path)
			again := tp.catch(t, hold, opMulti, path)
			withdrawn := make(chan error, 1)
			go func() { withdrawn <- first.Withdraw(soon(t)) }()
			receive(t, again.caught, "the second resignation")
			require.NoError(t, second.Wait(soon(t)))
			leader := acknowledge(t, second, "second")
			again.letGo()
			require.NoError(t, receive(t, withdrawn, "the resignation"))

			require.NoError(t, second.Err())
			require.Equal(t, []string{"second"}, values(t, st, election))
			seen, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Equal(t, leader, seen, "the first ballot's resignation removed the second's acknowledgement")
		})
	}
}

// Another client deletes the leader's ballot; its session lives, and with it the acknowledgement. While the old leader
// removes it, its successor acknowledges: the successor's acknowledgement stays.
func TestCleaningUpLeavesTheSuccessorAlone(t *testing.T) {
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	other := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	first := castFirst(t, st, election, "first")
	acknowledge(t, first, "first")
	second := cast(t, other, election, "second")
	require.NoError(t, conn.Delete(find(t, conn, election, "first"), -1))
	lost(t, first)
	require.NoError(t, second.Wait(soon(t)))

	removal := tp.catch(t, hold, opDelete, "leader_ack")
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- first.Withdraw(soon(t)) }()
	select {
	case <-removal.caught:
	case err := <-withdrawn: // it removes nothing, or with something that only its own acknowledgement passes
		require.NoError(t, err)
		withdrawn <- nil
	}
	leader := acknowledge(t, second, "second")
	removal.letGo()
	require.NoError(t, receive(t, withdrawn, "the resignation"))

	seen, err := storetest.Leader(soon(t), other, election, nil)
	require.NoError(t, err)
	require.Equal(t, leader, seen, "the one who was leader removed the new leader's acknowledgement")
}

// An operator has removed the acknowledgement: the ballot is removed all the same.
func TestResignWithoutAcknowledgement(t *testing.T) {
	election := newElection()
	conn := operator(t)
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	b := castFirst(t, st, election, "ours")
	acknowledge(t, b, "ours")
	require.NoError(t, conn.Delete(dir(election)+"/leader_ack", -1))
	require.NoError(t, b.Withdraw(soon(t)))
	require.Empty(t, list(t, conn, dir(election)))
}

// The caller of Withdraw gives up while the server can't be reached. The store goes on by itself, in the same session.
func TestResignationGivenUpIsCarriedOut(t *testing.T) {
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	witness := castFirst(t, st, newElection(), "stands as long as the session does")
	b := castFirst(t, st, election, "ours")
	acknowledge(t, b, "ours")
	c := tp.catch(t, loseRequest, opMulti, find(t, conn, election, "ours"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, b.Withdraw(ctx), context.Canceled)
	lost(t, b)
	receive(t, c.caught, "a first try in the background")
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 0 }, "the ballot is removed")
	require.NoError(t, witness.Err(), "not with its session")
}

// A waiting ballot is withdrawn. The order of the others does not change.
func TestWaiterWithdraws(t *testing.T) {
	election := newElection()
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	first := castFirst(t, st, election, "first")
	second, third := cast(t, st, election, "second"), cast(t, st, election, "third")
	require.NoError(t, second.Withdraw(soon(t)))
	lost(t, second)
	require.Error(t, second.Wait(soon(t)))
	waiting(t, third)
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, third.Wait(soon(t)))
	_, err := second.Acknowledge(soon(t), "second")
	require.ErrorIs(t, err, store.ErrLost)
}

// An existing acknowledgement is replaced if its holder can't lead: one without a session, and one of a session with a
// ballot in the queue.
func TestAcknowledgementInTheWay(t *testing.T) {
	conn := operator(t)
	for name, flags := range map[string]int32{"persistent": zk.FlagPersistent, "of one behind": zk.FlagEphemeral} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			makePath(t, conn, dir(election))
			path := dir(election) + "/leader_ack"
			_, err := conn.Create(path, []byte("in the way"), flags, world)
			require.NoError(t, err)
			_, err = conn.Set(path, []byte("changed"), -1)
			require.NoError(t, err)
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
			b := castFirst(t, st, election, "ours")
			behind, err := conn.Create(dir(election)+"/ballot_", nil, zk.FlagEphemeral|zk.FlagSequence, world)
			require.NoError(t, err)
			leader := acknowledge(t, b, oddBytes)
			data, stat, err := conn.Get(path)
			require.NoError(t, err)
			require.Equal(t, oddBytes, string(data))
			require.EqualValues(t, leader.Revision, stat.Mzxid)
			_, ballot, err := conn.Get(find(t, conn, election, "ours"))
			require.NoError(t, err)
			require.Equal(t, ballot.EphemeralOwner, stat.EphemeralOwner, "it goes with the ballot's session")
			require.NoError(t, b.Withdraw(soon(t)))
			require.NoError(t, conn.Delete(behind, -1))
			require.Empty(t, list(t, conn, dir(election)))
		})
	}
	t.Run("with nodes below it", func(t *testing.T) {
		election := newElection()
		makePath(t, conn, dir(election)+"/leader_ack/below")
		st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
		b := castFirst(t, st, election, "ours")
		_, err := b.Acknowledge(soon(t), "ours")
		require.ErrorIs(t, err, zk.ErrNotEmpty, "the data of others is not removed")
		require.NoError(t, b.Withdraw(soon(t)))
		require.Equal(t, []string{"below"}, list(t, conn, dir(election)+"/leader_ack"))
	})
}

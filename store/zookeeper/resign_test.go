package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Another client deletes the leader's ballot; its session lives, and with it the acknowledgement. While the old leader
// removes it, its successor acknowledges: the successor's acknowledgement stays.
func TestCleaningUpLeavesTheSuccessorAlone(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	other := open(t, zookeeper.Config{})
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

// An existing acknowledgement is replaced if its holder can't lead: one without a session, and one of a session with a
// ballot in the queue.
func TestAcknowledgementInTheWay(t *testing.T) {
	t.Parallel()
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
			st := open(t, zookeeper.Config{})
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
}

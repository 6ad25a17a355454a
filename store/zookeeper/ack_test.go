package zookeeper_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A program without a ballot holds the acknowledgement's node: it might lead. While its session lives the node is not
// overwritten, and the error names the holder. Then the next term acknowledges.
func TestAnotherProgramHoldsTheAcknowledgement(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, dir(election))
	holder := operator(t)
	_, err := holder.Create(ack, []byte("old:1234"), zk.FlagEphemeral, world)
	require.NoError(t, err)
	session := fmt.Sprintf("%#x", uint64(holder.SessionID()))

	st := open(t, zookeeper.Config{})
	b := castFirst(t, st, election, "new:1234")
	_, err = b.Acknowledge(soon(t), "new:1234")
	require.ErrorContains(t, err, "old:1234")
	require.ErrorContains(t, err, session)
	require.False(t, store.Permanent(err), "the next term may be told otherwise")
	data, stat, err := conn.Get(ack)
	require.NoError(t, err)
	require.Equal(t, "old:1234", string(data))
	require.Equal(t, holder.SessionID(), stat.EphemeralOwner)
	require.NoError(t, b.Withdraw(soon(t)))
	require.Equal(t, []string{"leader_ack"}, list(t, conn, dir(election)), "it is not removed with the ballot either")

	run := contend(t, st, election, "new:1234")
	eventually(t, func() bool { return len(run.Errors()) > 0 }, "the error")
	require.ErrorContains(t, run.Errors()[0], session)
	holder.Close()
	receive(t, run.Terms, "the term")
	leader, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	require.Equal(t, "new:1234", leader.Value)
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

// A node that another client made at the acknowledgement's path is replaced, unless it has children. Then the error
// says what to do, and acknowledging works as soon as that is done.
func TestAcknowledgementBehindAForeignNode(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, ack+"/child")
	b := castFirst(t, open(t, zookeeper.Config{}), election, "ours")
	_, err := b.Acknowledge(soon(t), "ours")
	require.ErrorIs(t, err, zk.ErrNotEmpty)
	require.ErrorContains(t, err, ack+" was made by another program")
	require.ErrorContains(t, err, "delete it")
	require.False(t, store.Permanent(err), "it can be cured while the candidate goes on")
	require.NoError(t, conn.Delete(ack+"/child", -1))
	acknowledge(t, b, "ours")
	require.NoError(t, b.Withdraw(soon(t)))
	require.Empty(t, list(t, conn, dir(election)))
}

// An acknowledgement that outlived its ballot is replaced if its holder has a new ballot, or its ballot was the one
// ahead.
func TestAcknowledgementOutlivesItsBallot(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"it stood ahead": false, "it stands again": true} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			conn, holder := operator(t), operator(t)
			makePath(t, conn, dir(election))
			ballot := func() string {
				path, err := holder.Create(dir(election)+"/ballot_", []byte("old"), zk.FlagEphemeral|zk.FlagSequence, world)
				require.NoError(t, err)
				return path
			}
			stood := ballot()
			_, err := holder.Create(dir(election)+"/leader_ack", []byte("old"), zk.FlagEphemeral, world)
			require.NoError(t, err)
			if again {
				require.NoError(t, conn.Delete(stood, -1))
			}
			st, tp := openTapped(t)
			watched := tp.catch(t, holdReply, opGetData, stood)
			b := cast(t, st, election, "new")
			if again {
				ballot()
			} else {
				receive(t, watched.arrived, "the ballot ahead")
				require.NoError(t, conn.Delete(stood, -1))
				watched.letGo()
			}
			require.NoError(t, b.Wait(soon(t)))
			acknowledge(t, b, "new")
		})
	}
}

// The same if the holder's ballot is the nearest ahead only when another has been removed.
func TestAcknowledgementOutlivesABallotFurtherAhead(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn, holder := operator(t), operator(t)
	makePath(t, conn, dir(election))
	ballot := func(c *zk.Conn) string {
		path, err := c.Create(dir(election)+"/ballot_", []byte("old"), zk.FlagEphemeral|zk.FlagSequence, world)
		require.NoError(t, err)
		return path
	}
	stood, between := ballot(holder), ballot(conn)
	_, err := holder.Create(dir(election)+"/leader_ack", []byte("old"), zk.FlagEphemeral, world)
	require.NoError(t, err)
	st, tp := openTapped(t)
	b := cast(t, st, election, "new")
	read := tp.catch(t, holdReply, opGetData, stood)
	require.NoError(t, conn.Delete(between, -1))
	receive(t, read.arrived, "what is ahead now")
	require.NoError(t, conn.Delete(stood, -1))
	read.letGo()
	require.NoError(t, b.Wait(soon(t)))
	acknowledge(t, b, "new")
}

// The new acknowledgement is written twice to get another version. A server closes the connection on a request of over 1
// MiB: the longest value passes.
func TestLongestValueReplacesAnother(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, ack)
	_, err := conn.Set(ack, []byte("left over"), -1)
	require.NoError(t, err)
	b := castFirst(t, open(t, zookeeper.Config{}), election, "new")
	acknowledge(t, b, strings.Repeat("x", store.MaxValue))
}

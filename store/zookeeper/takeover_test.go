package zookeeper_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
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
			b := cast(t, open(t, zookeeper.Config{}), election, "new")
			if again {
				ballot()
			} else {
				require.NoError(t, conn.Delete(stood, -1))
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

// An acknowledgement whose outcome is unknown might not exist. If another program holds the node, it is not removed
// with the ballot; if this ballot made it, it is.
func TestWithdrawalAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn, holder := operator(t), operator(t)
	makePath(t, conn, dir(election))
	_, err := holder.Create(dir(election)+"/leader_ack", []byte("old:1234"), zk.FlagEphemeral, world)
	require.NoError(t, err)
	st := open(t, zookeeper.Config{})
	remove := func(s engine.Session, e engine.Entry) {
		require.NoError(t, s.Remove(soon(t), engine.Removal{
			Entry: e, Led: true, Acknowledged: true, Alone: func() bool { return true },
		}))
	}
	session, e := enter(t, st, election, "new:1234")
	remove(session, e)
	require.Equal(t, []string{"leader_ack"}, list(t, conn, dir(election)))

	holder.Close()
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 0 }, "the holder's session ends")
	for _, made := range []bool{false, true} {
		session, e := enter(t, st, election, "new:1234")
		if made {
			_, err = session.Acknowledge(soon(t), e, "new:1234")
			require.NoError(t, err)
		}
		remove(session, e)
		require.Empty(t, list(t, conn, dir(election)))
	}
}

// While the old session stands because a leader's work has not stopped, a campaign reports that it waits for that.
func TestSessionBeforeStandsForTheWork(t *testing.T) {
	t.Parallel()
	st := open(t, zookeeper.Config{})
	b := castFirst(t, st, newElection(), "works")
	putBack(t, st, newElection())
	lost(t, b)
	_, err := st.Cast(within(t, 3*time.Second), newElection(), "other")
	require.ErrorContains(t, err, "the session before stands until its leader's work has stopped")
	_ = b.Withdraw(soon(t)) // with an error: the ballot might stand until the session has ended
	cast(t, st, newElection(), "other")
}

// The new acknowledgement is written several times to get another version, but a long value only once: a server closes
// the connection on a request of over 1 MiB.
func TestLongestValueReplacesAnother(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, ack)
	for range 7 {
		_, err := conn.Set(ack, []byte("left over"), -1)
		require.NoError(t, err)
	}
	b := castFirst(t, open(t, zookeeper.Config{}), election, "new")
	acknowledge(t, b, strings.Repeat("x", store.MaxValue))
}

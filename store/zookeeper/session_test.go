package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A client with the session's id closes it: all of its ballots are lost at once, and the next campaign opens another.
func TestSessionClosedFromOutside(t *testing.T) {
	t.Parallel()
	st, tp := openTapped(t)
	var ballots []store.Ballot
	for range 3 {
		ballots = append(ballots, castFirst(t, st, newElection(), "own"))
	}
	start := time.Now()
	tp.endSession(t, sharedServer(t).Addrs()[0])
	for _, b := range ballots {
		lost(t, b)
		eventually(t, func() bool { return b.Lease().Remaining() == 0 }, "the end of the lease") // the ballot learns first
	}
	require.Less(t, time.Since(start), long/2, "it is noticed before the lease would run out")
	b := castFirst(t, st, newElection(), "own")
	eventually(t, func() bool { _, ok := b.Lease().Span(); return ok }, "the lease of the new session")
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

// An operator restores a copy in which a ballot stands that has been withdrawn since, and whose session lives. The
// ballot must not block other candidates, although its store has no candidate any more. Another ballot of the session has been
// cast since. No confirmation after the restore renews its lease: a rival would lead with what is in the copy.
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
	leader := castFirst(t, st, newElection(), "leader")
	require.NoError(t, member.Stop())
	stopped := time.Now()
	require.NoError(t, member.RestoreData())
	require.NoError(t, member.Start(soon(t)))
	lost(t, leader)
	require.ErrorIs(t, leader.Err(), zookeeper.ErrRestored)
	require.True(t, leader.Lease().Last().Sent.Before(stopped), "a confirmation after the restore has counted")
	_ = leader.Withdraw(soon(t)) // its work has stopped, so the session ends
	other := contend(t, open(t, config), election, "other")
	receive(t, other.Terms, "the term")
	require.Equal(t, []string{"other"}, values(t, st, election))
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

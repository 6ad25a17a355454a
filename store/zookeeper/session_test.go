package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

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

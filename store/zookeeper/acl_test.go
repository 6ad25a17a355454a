package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// requireDenied checks that an error is a denial that names the path.
func requireDenied(t *testing.T, err error, path string) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, path)
}

// Two identities use one root, under each setting of the ACL. The ACL is set by the first.
func TestACL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		acl               zookeeper.ACL
		anonymous         bool // the first has no identity
		mayRead, mayStand bool // the second
	}{
		{acl: zookeeper.ACLCreator},
		{acl: ""}, // with a user: creator
		{acl: zookeeper.ACLRead, mayRead: true},
		{acl: zookeeper.ACLWorld, mayRead: true, mayStand: true},
		{anonymous: true, mayRead: true, mayStand: true},
	} {
		t.Run("acl "+string(c.acl), func(t *testing.T) {
			root, election := "/"+newElection(), newElection()
			path := root + "/" + election
			config := zookeeper.Config{Root: root}
			first, second := config, config
			first.ACL, first.User, first.Password = c.acl, "first", "secret 1"
			if c.anonymous {
				first.User, first.Password = "", ""
			}
			second.User, second.Password = "second", "secret 2"
			st := open(t, first)
			leader := contend(t, st, election, "first")
			receive(t, leader.Terms, "the first leads")

			other := open(t, second)
			if c.mayRead {
				seen, err := storetest.Leader(soon(t), other, election, nil)
				require.NoError(t, err)
				require.Equal(t, "first", seen.Value)
				require.Equal(t, []string{"first"}, values(t, other, election))
				listed, err := other.Elections(soon(t))
				require.NoError(t, err)
				require.Equal(t, []string{election}, listed)
			} else {
				_, err := other.Elections(soon(t))
				require.ErrorIs(t, err, store.ErrDenied)
				require.ErrorContains(t, err, "list the elections")
				_, err = storetest.Leader(soon(t), other, election, nil)
				requireDenied(t, err, path)
				_, err = other.Ballots(soon(t), election)
				require.ErrorIs(t, err, store.ErrDenied)
				told := make(chan error, 1)
				f, err := leadership.NewFollower(other, election, &leadership.Options{Hooks: &leadership.Hooks{
					Error: func(_ string, err error, _ time.Duration) {
						select {
						case told <- err:
						default:
						}
					},
				}})
				require.NoError(t, err)
				f.Start()
				requireDenied(t, receive(t, told, "the hook is told"), path)
				f.Stop()
				<-f.Done()
			}
			if c.mayStand {
				waiting(t, cast(t, other, election, "second"))
				return
			}
			_, err := other.Cast(soon(t), election, "second")
			requireDenied(t, err, path)
			candidate := contend(t, other, election, "second")
			eventually(t, func() bool { return len(candidate.Errors()) > 0 }, "the hook is told")
			requireDenied(t, candidate.Errors()[0], path)
			candidate.End()
			_, err = other.Cast(soon(t), newElection(), "second") // its directory has to be made in that of the first
			requireDenied(t, err, root)
			require.Equal(t, []string{"first"}, values(t, st, election))
			require.True(t, leader.IsLeader())
		})
	}
}

// The ACL allows to create nodes and not to delete them. The resignation returns a denial, and the ballot is removed
// with the session, whether the store is closed or goes on with another session.
func TestRemovalIsDenied(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, "/_zkelection")
	_, err := conn.Create(dir(election), nil, zk.FlagPersistent, zk.WorldACL(zk.PermCreate|zk.PermRead))
	require.NoError(t, err)
	st := open(t, zookeeper.Config{TTL: middling})
	other := open(t, zookeeper.Config{})
	b := castFirst(t, st, election, "first")
	bystander := castFirst(t, st, newElection(), "of the same session")
	waiter := cast(t, other, election, "waiter")
	require.ErrorIs(t, b.Withdraw(soon(t)), store.ErrDenied)
	lost(t, b)
	lost(t, bystander)
	require.ErrorIs(t, bystander.Err(), store.ErrLost)
	require.NoError(t, waiter.Wait(soon(t)))
	require.Equal(t, []string{"waiter"}, values(t, other, election))
	next := castFirst(t, st, newElection(), "in the next session")
	_, err = next.Acknowledge(soon(t), "in the next session")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.Empty(t, list(t, conn, dir(election)))
}

// The permission to read a ballot is taken away: on the next connection the store can't watch the ballot any more, and
// the ballot must not block others.
func TestLookIsDenied(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	first := castFirst(t, open(t, zookeeper.Config{}), election, "first")
	b := cast(t, st, election, "unreadable")
	_, err := conn.SetACL(find(t, conn, election, "unreadable"), zk.WorldACL(zk.PermDelete), -1)
	require.NoError(t, err)
	tp.breakOff()
	lost(t, b)
	require.ErrorIs(t, b.Err(), store.ErrLost)
	require.ErrorIs(t, b.Err(), store.ErrDenied)
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 1 }, "the ballot is removed")
	require.NoError(t, first.Err())
}

// A server whose root may not be read refuses the confirmations of a session. The refusal comes from a quorum, too.
func TestConfirmationIsDenied(t *testing.T) {
	t.Parallel()
	server := faultyServer(t) // no other test uses it meanwhile
	conn := connectRaw(t, long, server.Addrs()...)
	_, err := conn.SetACL("/", zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	require.NoError(t, err)
	defer conn.SetACL("/", world, -1)
	st := open(t, zookeeper.Config{Servers: server.Addrs(), TTL: middling})
	b := castFirst(t, st, newElection(), "own")
	first := b.Lease().Last().Sent
	eventually(t, func() bool { return b.Lease().Last().Sent.After(first) }, "the lease is renewed")
	require.NoError(t, b.Err())
}

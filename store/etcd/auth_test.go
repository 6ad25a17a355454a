package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Authentication is enabled during elections. Stores that already have a user go on with their leases and watches;
// stores without one are denied.
func TestAuthIsEnabled(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast})
	client := operator(t, server.Addrs()...)
	config := Config{Endpoints: server.Addrs(), User: "ann", Password: secret, TTL: long}
	one, two := open(t, config), open(t, config)
	b, waiter := castFirst(t, one, "a", "first"), cast(t, two, "a", "waiter")
	span, ok := b.Lease().Span()
	require.True(t, ok)
	config.User, config.Password, config.TTL = "", "", middling
	without := cast(t, open(t, config), "a", "without")
	eventually(t, func() bool { return two.watches() == 2 }, "the waiter watches")

	addReader(t, client, "ann")
	_, err := client.RoleGrantPermission(soon(t), "ann", "leadership/", "leadership0", clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	_, err = client.UserAdd(soon(t), "root", secret)
	require.NoError(t, err)
	_, err = client.UserGrantRole(soon(t), "root", "root")
	require.NoError(t, err)
	_, err = client.AuthEnable(soon(t))
	require.NoError(t, err)

	enabled := b.Lease().Last().Sent
	eventually(t, func() bool { return b.Lease().Last().Sent.After(enabled) }, "a renewal")
	leader := acknowledge(t, b, "first")
	seen, err := storetest.Leader(soon(t), two, "a", &store.Leader{}) // on the stream that was opened before
	require.NoError(t, err)
	require.Equal(t, leader, seen)
	require.True(t, b.Lease().Holds(span))
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, waiter.Wait(soon(t)))
	require.NoError(t, waiter.Err())
	lost(t, without)
	require.ErrorIs(t, without.Err(), store.ErrDenied)
}

// A role on the prefix is enough for candidates, and permission to read the prefix for followers. Others are denied.
func TestAuth(t *testing.T) {
	t.Parallel()
	server, election := sharedGuarded(t), newElection()
	config := user(t, server)
	config.Prefix = "leadership/" + newElection() // no other test has elections there
	addReader(t, root(t, server), "reader")
	first := castFirst(t, open(t, config), election, "first")
	acknowledge(t, first, "first")
	second := cast(t, open(t, config), election, "second")
	follower := openAt(t, "etcd://reader:s3cret%3A%20pass%2Fword@"+server.Addrs()[0]+"/"+config.Prefix)
	leader, err := storetest.Leader(soon(t), follower, election, nil)
	require.NoError(t, err)
	require.Equal(t, "first", leader.Value)
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	acknowledge(t, second, "second")
	for leader.Value != "second" {
		leader, err = storetest.Leader(soon(t), follower, election, &leader)
		require.NoError(t, err)
	}
	confirmed(t, follower, election) // what the reader knows
	listed, err := follower.Elections(soon(t))
	require.NoError(t, err)
	require.Equal(t, []string{election}, listed)

	// The reader may not be a candidate. Its attempt leaves nothing that the store would retry again and again.
	_, err = follower.Cast(soon(t), election, "reader")
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "cast in election")
	require.Equal(t, []string{"second"}, values(t, follower, election))

	config.Prefix = "other"
	stranger := open(t, config)
	for op, call := range map[string]func() error{
		"cast":               func() error { _, err := stranger.Cast(soon(t), election, "x"); return err },
		"read the leader":    func() error { _, err := storetest.Leader(soon(t), stranger, election, nil); return err },
		"list the ballots":   func() error { _, err := stranger.Ballots(soon(t), election); return err },
		"list the elections": func() error { _, err := stranger.Elections(soon(t)); return err },
	} {
		err := call()
		require.ErrorIs(t, err, store.ErrDenied, op)
		require.ErrorContains(t, err, op)
		require.NotContains(t, err.Error(), secret)
	}
}

// Wrong or missing credentials are reported at once.
func TestAuthWrong(t *testing.T) {
	t.Parallel()
	config := user(t, sharedGuarded(t))
	for name, change := range map[string]func(c *Config){
		"wrong password": func(c *Config) { c.Password = "wrong-" + secret },
		"no such user":   func(c *Config) { c.User = "bob" },
		"no user":        func(c *Config) { c.User, c.Password = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			change(&config)
			st := open(t, config)
			ctx := within(t, long/2) // what is not reported at once is not reported
			_, err := st.Cast(ctx, "a", "x")
			require.ErrorIs(t, err, store.ErrDenied)
			require.NotContains(t, err.Error(), secret)
			require.ErrorContains(t, err, config.User)
			_, err = storetest.Leader(ctx, st, "a", &store.Leader{Value: "x"})
			require.ErrorIs(t, err, store.ErrDenied)
		})
	}
}

// A user does no harm if the cluster has no authentication.
func TestAuthNotEnabled(t *testing.T) {
	t.Parallel()
	castFirst(t, open(t, Config{User: "ann", Password: secret}), newElection(), "own")
}

// Tokens that expire every second do no harm: the lease is renewed, the waiter's watch works, and a broken stream is
// opened with another token.
func TestAuthTokenExpires(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Auth: true, Extra: append([]string{shortTokens}, withAuth...)})
	election := newElection()
	config := user(t, server)
	config.TTL = 15 * time.Second // each renewal might need another token first
	st := open(t, config)
	b := castFirst(t, st, election, "first")
	waiter := cast(t, open(t, config), election, "waiter")
	follower := open(t, config)
	span, ok := b.Lease().Span()
	require.True(t, ok)
	start := time.Now()
	eventually(t, func() bool { return b.Lease().Last().Sent.Sub(start) > config.TTL }, "renewals for a TTL")
	require.True(t, b.Lease().Holds(span))
	leader := acknowledge(t, b, "first")
	seen, err := storetest.Leader(soon(t), follower, election, &store.Leader{})
	require.NoError(t, err)
	require.Equal(t, leader, seen)
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, waiter.Wait(soon(t)))
	require.NoError(t, server.Member(0).Stop())
	require.NoError(t, server.Member(0).Start(soon(t)))
	eventually(t, func() bool { // until there is a connection again, a request fails at once
		_, err := waiter.Acknowledge(soon(t), "waiter")
		return err == nil
	}, "the waiter acknowledges")
	last := cast(t, st, election, "last")
	_, err = root(t, server).Delete(soon(t), ballotKeys(election), clientv3.WithPrefix())
	require.NoError(t, err)
	lost(t, waiter)
	lost(t, last)
}

// A leader loses its permission: it stops, is told why, and does not block the others.
func TestAuthTakenAway(t *testing.T) {
	t.Parallel()
	for name, takeAway := range map[string]func(ctx context.Context, root *clientv3.Client, user string) error{
		"the role": func(ctx context.Context, root *clientv3.Client, user string) error {
			_, err := root.UserRevokeRole(ctx, user, user)
			return err
		},
		"the user": func(ctx context.Context, root *clientv3.Client, user string) error {
			_, err := root.UserDelete(ctx, user)
			return err
		},
		"the password": func(ctx context.Context, root *clientv3.Client, user string) error {
			_, err := root.UserChangePassword(ctx, user, "another")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, election := sharedTokens(t), newElection()
			var log logged
			config, other := user(t, server), user(t, server)
			config.Logger, config.TTL = log.logger(), middling
			first := contend(t, open(t, config), election, "first")
			term := receive(t, first.Terms, "the first leads")
			waiting := contend(t, open(t, config), election, "waiting")
			second := contend(t, open(t, other), election, "second")
			eventually(t, func() bool { return len(values(t, second.Store, election)) == 3 }, "all stand")
			require.NoError(t, takeAway(soon(t), root(t, server), config.User))
			receive(t, term.Context().Done(), "the end of the term")
			for _, c := range []*contender{first, waiting} {
				eventually(t, func() bool {
					return slices.ContainsFunc(c.Errors(), func(err error) bool { return errors.Is(err, store.ErrDenied) })
				}, "%s is told why", c.Value)
			}
			receive(t, second.Terms, "the second leads")
			eventually(t, func() bool { return len(values(t, second.Store, election)) == 1 }, "nothing is left of the others")
			eventually(t, func() bool { return log.has("denied") || log.has("invalid") }, "the log says why")
			require.Less(t, log.count(), 50, "and not at every try")
		})
	}
}

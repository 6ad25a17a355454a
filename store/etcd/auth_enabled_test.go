package etcd_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Authentication is enabled during elections. Stores that already have a user go on with their leases and watches;
// stores without one are denied.
func TestAuthIsEnabled(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast})
	client := operator(t, server.Addrs()...)
	config := etcd.Config{Endpoints: server.Addrs(), User: "ann", Password: secret, TTL: long}
	one, two := open(t, config), open(t, config)
	b, waiter := castFirst(t, one, "a", "first"), cast(t, two, "a", "waiter")
	span, ok := b.Lease().Span()
	require.True(t, ok)
	config.User, config.Password, config.TTL = "", "", middling
	without := cast(t, open(t, config), "a", "without")
	eventually(t, func() bool { return two.Watches() == 2 }, "the waiter watches")

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

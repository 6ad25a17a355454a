package zookeeper_test

import (
	"fmt"
	"math"
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

// Wrong settings are refused before anything is sent, with an error that names the field and the value.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field  string
		parts  []string
		change func(c *zookeeper.Config)
	}{
		{"ttl", []string{"1.5ms"}, func(c *zookeeper.Config) { c.TTL = 1500 * time.Microsecond }},
		{"ttl", []string{"1ms"}, func(c *zookeeper.Config) { c.TTL = (math.MaxInt32 + 1) * time.Millisecond }},
		{"user", nil, func(c *zookeeper.Config) { c.Password = "secret" }},
		{"user", []string{`":"`}, func(c *zookeeper.Config) { c.User = "a:secret" }},
		{"acl", []string{"everybody", "creator", "world"}, func(c *zookeeper.Config) { c.ACL = "everybody" }},
		{"acl", []string{"creator"}, func(c *zookeeper.Config) { c.ACL = zookeeper.ACLCreator }},
		{"acl", []string{"read"}, func(c *zookeeper.Config) { c.ACL = zookeeper.ACLRead }},
		{"root", []string{"elections"}, func(c *zookeeper.Config) { c.Root = "elections" }},
		{"root", []string{"/a/"}, func(c *zookeeper.Config) { c.Root = "/a/" }},
		{"root", []string{"/a//b"}, func(c *zookeeper.Config) { c.Root = "/a//b" }},
		{"root", []string{"/a/../b"}, func(c *zookeeper.Config) { c.Root = "/a/../b" }},
		{"root", nil, func(c *zookeeper.Config) { c.Root = "/a\nb" }},
		{"root", []string{"/"}, func(c *zookeeper.Config) { c.Root = "/" }}, // would make the path //election
		{"root", []string{"1048577", "1024"}, func(c *zookeeper.Config) { c.Root = "/" + strings.Repeat("a", 1<<20) }},
		{"chroot", []string{"1025", "1024"}, func(c *zookeeper.Config) { c.Chroot = "/" + strings.Repeat("a", 1024) }},
		{"chroot", []string{"prod"}, func(c *zookeeper.Config) { c.Chroot = "prod" }},
		{"chroot", []string{"/prod/"}, func(c *zookeeper.Config) { c.Chroot = "/prod/" }},
		{"chroot", []string{"/"}, func(c *zookeeper.Config) { c.Chroot = "/" }},
	} {
		t.Run(c.field, func(t *testing.T) {
			config := zookeeper.Config{Servers: []string{"127.0.0.1"}, TTL: 2 * time.Second}
			c.change(&config)
			st, err := zookeeper.Open(config)
			if err == nil {
				require.NoError(t, st.Close())
			}
			requireInvalid(t, err, c.field, c.parts...)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// Every option of a URL reaches its setting.
func TestURL(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	addr := sharedServer(t).Addrs()[0]
	election := newElection()
	st := openURL(t, "zookeeper://user%40x:p%3Ass@"+addr+"/prod%20url/eu?ttl=30s&grace=2500ms&root=%2Fwahl&acl=read")
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	nodes := list(t, conn, "/prod url/eu/wahl/"+election)
	require.Len(t, nodes, 2)
	acl, _, err := conn.GetACL("/prod url/eu/wahl/" + election + "/leader_ack")
	require.NoError(t, err)
	require.Len(t, acl, 2)
	require.True(t, strings.HasPrefix(acl[0].ID, "user@x:"), acl[0].ID)
	require.Equal(t, "world", acl[1].Scheme)

	eventually(t, func() bool { // on a busy machine not at once: a lease is shorter by what an answer takes
		last := b.Lease().Last()
		d := last.Deadline.Sub(last.Sent)
		return d > 20*time.Second && d <= 27500*time.Millisecond
	}, "a lease of more than the default grace leaves, and no more than the grace given does")
}

// Package fmt prints fields without asking methods if a field is unexported, or a value is converted to another type.
// What a store keeps does not show there either.
func TestStoreKeepsThePasswordOutOfReach(t *testing.T) {
	t.Parallel()
	const password = "hUnter2"
	st := open(t, zookeeper.Config{Servers: []string{"127.0.0.1:1"}, User: "alice", Password: password})
	require.NoError(t, st.Close()) // nothing writes to it any more
	type plain zookeeper.Store
	for _, x := range []any{(*plain)(st), struct{ st *zookeeper.Store }{st}, struct{ st store.Store }{st}} {
		require.NotContains(t, fmt.Sprintf("%+v%s", x, x), password)
	}
	d := st.Driver()
	for _, x := range []any{d, struct{ d engine.Driver }{d}} {
		text := fmt.Sprintf("%+v%s", x, x)
		require.Contains(t, text, "alice")
		require.NotContains(t, text, password)
	}
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
			}
			if c.mayStand {
				waiting(t, cast(t, other, election, "second"))
				return
			}
			_, err := other.Cast(soon(t), election, "second")
			requireDenied(t, err, path)
			_, err = other.Cast(soon(t), newElection(), "second") // its directory has to be made in that of the first
			requireDenied(t, err, root)
			require.Equal(t, []string{"first"}, values(t, st, election))
			require.True(t, leader.IsLeader())
		})
	}
}

// requireDenied checks that an error is a denial that names the path.
func requireDenied(t *testing.T, err error, path string) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, path)
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

package zookeeper_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
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
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = nil }},
		{"servers", []string{"host 2"}, func(c *zookeeper.Config) { c.Servers = []string{"h", "u:secret@h"} }},
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = []string{"u:secret@h:2181"} }},
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = []string{"zookeeper://h:2181"} }},
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = []string{"h1,h2"} }},
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = []string{"h/chroot"} }},
		{"servers", []string{"1 to 65535"}, func(c *zookeeper.Config) { c.Servers = []string{"h:0"} }},
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = []string{"h:abc"} }},
		{"servers", []string{"IPv6"}, func(c *zookeeper.Config) { c.Servers = []string{"[::1"} }},
		{"servers", nil, func(c *zookeeper.Config) { c.Servers = []string{""} }},
		{"ttl", []string{"-1s"}, func(c *zookeeper.Config) { c.TTL = -time.Second }},
		{"ttl", []string{"1ns"}, func(c *zookeeper.Config) { c.TTL = 1 }},
		{"ttl", []string{"1.5ms"}, func(c *zookeeper.Config) { c.TTL = 1500 * time.Microsecond }},
		{"ttl", []string{"1ms"}, func(c *zookeeper.Config) { c.TTL = (math.MaxInt32 + 1) * time.Millisecond }},
		{"grace", []string{"-1s"}, func(c *zookeeper.Config) { c.Grace = -time.Second }},
		{"grace", []string{"1.1s", "2s"}, func(c *zookeeper.Config) { c.Grace = 1100 * time.Millisecond }},
		{"user", nil, func(c *zookeeper.Config) { c.Password = "secret" }},
		{"user", []string{`":"`}, func(c *zookeeper.Config) { c.User = "a:secret" }},
		{"acl", []string{"everybody", "creator", "world"}, func(c *zookeeper.Config) { c.ACL = "everybody" }},
		{"acl", []string{"creator"}, func(c *zookeeper.Config) { c.ACL = zookeeper.ACLCreator }},
		{"acl", []string{"read"}, func(c *zookeeper.Config) { c.ACL = zookeeper.ACLRead }},
		{"ack", []string{"ballot_ack"}, func(c *zookeeper.Config) { c.AckName = "ballot_ack" }},
		{"ack", []string{"a/b"}, func(c *zookeeper.Config) { c.AckName = "a/b" }},
		{"ack", []string{".."}, func(c *zookeeper.Config) { c.AckName = ".." }},
		{"ack", nil, func(c *zookeeper.Config) { c.AckName = "a\x00b" }},
		{"ballot", []string{"a/b"}, func(c *zookeeper.Config) { c.BallotPrefix = "a/b" }},
		{"ballot", nil, func(c *zookeeper.Config) { c.BallotPrefix = "a\u007fb" }},
		{"root", []string{"elections"}, func(c *zookeeper.Config) { c.Root = "elections" }},
		{"root", []string{"/a/"}, func(c *zookeeper.Config) { c.Root = "/a/" }},
		{"root", []string{"/a//b"}, func(c *zookeeper.Config) { c.Root = "/a//b" }},
		{"root", []string{"/a/../b"}, func(c *zookeeper.Config) { c.Root = "/a/../b" }},
		{"root", nil, func(c *zookeeper.Config) { c.Root = "/a\nb" }},
		{"root", []string{"/"}, func(c *zookeeper.Config) { c.Root = "/" }}, // would make the path //election
		{"root", []string{"1048577", "1024"}, func(c *zookeeper.Config) { c.Root = "/" + strings.Repeat("a", 1<<20) }},
		{"chroot", []string{"1025", "1024"}, func(c *zookeeper.Config) { c.Chroot = "/" + strings.Repeat("a", 1024) }},
		{"ack", []string{"1025"}, func(c *zookeeper.Config) { c.AckName = strings.Repeat("a", 1025) }},
		{"ballot", []string{"1025"}, func(c *zookeeper.Config) { c.BallotPrefix = strings.Repeat("a", 1025) }},
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
	st := openURL(t, "zookeeper://user%40x:p%3Ass@"+addr+"/prod%20url/eu?ttl=30s&grace=2500ms&root=%2Fwahl&ballot=stimme&ack=erster&acl=read")
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	nodes := list(t, conn, "/prod url/eu/wahl/"+election)
	require.Len(t, nodes, 2)
	require.Contains(t, nodes, "erster")
	require.True(t, strings.HasPrefix(nodes[0], "stimme") || strings.HasPrefix(nodes[1], "stimme"))
	acl, _, err := conn.GetACL("/prod url/eu/wahl/" + election + "/erster")
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

// The settings decide where the nodes are.
func TestSettingsOfTheLayout(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	config := zookeeper.Config{
		Chroot: "/prod/eu west", Root: "/wahl", BallotPrefix: "stimme", AckName: "gewählt",
	}
	election := newElection() + "/mit Teilen"
	st := open(t, config)
	for range 2 { // the nodes above exist the second time
		b := castFirst(t, st, election, "own")
		acknowledge(t, b, oddBytes)
		path := "/prod/eu west/wahl/" + election[:len(election)-len("/mit Teilen")] + "__mit Teilen"
		nodes := list(t, conn, path)
		require.Len(t, nodes, 2)
		for _, name := range nodes {
			_, stat, err := conn.Get(path + "/" + name)
			require.NoError(t, err)
			require.NotZero(t, stat.EphemeralOwner)
			if name != "gewählt" {
				require.Regexp(t, `^stimme_[0-9a-f]{17,}_\d{10}$`, name)
				require.EqualValues(t, b.Token(), stat.Czxid)
			}
		}
		data, _, err := conn.Get(path + "/gewählt")
		require.NoError(t, err)
		require.Equal(t, oddBytes, string(data))
		require.NoError(t, b.Withdraw(soon(t)))
		require.Empty(t, list(t, conn, path))
	}
	other := config
	other.Chroot, other.Root = "/prod", "/eu west/wahl" // the same path
	castFirst(t, st, election, "first")
	waiting(t, cast(t, open(t, other), election, "second"))
	require.Empty(t, list(t, conn, dir(election)))
}

// The ensemble decides about the timeout. If it grants another one, the store refuses it, with both values, before a
// ballot is cast: the arithmetic of the lease depends on it.
func TestTTLIsNotGranted(t *testing.T) {
	t.Parallel()
	root := "/" + newElection()
	for asked, granted := range map[time.Duration]string{
		time.Millisecond:       "1s",
		500 * time.Millisecond: "1s", 999 * time.Millisecond: "1s", 60001 * time.Millisecond: "1m0s", time.Hour: "1m0s", // the server grants 1 s to 60 s
	} {
		t.Run(asked.String(), func(t *testing.T) {
			election := newElection()
			st := open(t, zookeeper.Config{TTL: asked, Root: root})
			_, err := storetest.TryCast(soon(t), st, election, "own")
			requireInvalid(t, err, "ttl", asked.String(), granted)
			require.True(t, store.Permanent(err))
			c := contend(t, st, election, "own")
			requireInvalid(t, receive(t, c.Ended, "Run's end"), "ttl", asked.String(), granted)
		})
	}
	require.NotContains(t, list(t, operator(t), "/"), root[1:], "nothing is written")
	for _, asked := range []time.Duration{time.Second, time.Minute} {
		cast(t, open(t, zookeeper.Config{TTL: asked, Root: root}), newElection(), "own")
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
				told := make(chan error, 1)
				f, err := leadership.NewFollower(other, election, &leadership.FollowerOptions{Events: func(e leadership.Event) {
					select {
					case told <- e.Err:
					default:
					}
				}})
				require.NoError(t, err)
				f.Start()
				requireDenied(t, receive(t, told, "an event"), path)
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
			eventually(t, func() bool { return len(candidate.Errors()) > 0 }, "an event")
			requireDenied(t, candidate.Errors()[0], path)
			candidate.End()
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

// The ACL allows to create nodes and not to delete them. The resignation returns a denial, and the ballot is removed
// with the session: once the store leads in no other election, or when it is closed.
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
	_, err = bystander.Acknowledge(soon(t), "goes on")
	require.NoError(t, err)
	_, err = st.Cast(soon(t), election, "one more that can't go")
	require.ErrorIs(t, err, store.ErrDenied)
	require.NoError(t, bystander.Withdraw(soon(t)))
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

package zookeeper_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
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
			_, err := st.Cast(soon(t), election, "own")
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

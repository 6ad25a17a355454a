package etcd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// Wrong settings are refused before anything is sent, with an error that names the field and the value.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	client := operator(t)
	for _, c := range []struct {
		field  string
		parts  []string
		change func(c *etcd.Config)
	}{
		{"endpoints", nil, func(c *etcd.Config) { c.Endpoints = nil }},
		{"endpoints", []string{"host 1"}, func(c *etcd.Config) { c.Endpoints = []string{"http://a:1"} }},
		{"endpoints", nil, func(c *etcd.Config) { c.Endpoints = []string{"user:secret@a:2379"} }},
		{"client", nil, func(c *etcd.Config) { c.Client = client }},
		{"client", nil, func(c *etcd.Config) { c.Endpoints, c.Client, c.TLS = nil, client, &tls.Config{} }},
		{"client", nil, func(c *etcd.Config) { c.Endpoints, c.Client, c.User = nil, client, "ann" }},
		{"client", nil, func(c *etcd.Config) { c.Endpoints, c.Client, c.Dial = nil, client, conformance.NewNetwork().Dial }},
		{"ttl", []string{"999ms", "1s"}, func(c *etcd.Config) { c.TTL = 999 * time.Millisecond }},
		{"ttl", []string{"2.5s", "multiple of 1s"}, func(c *etcd.Config) { c.TTL = 2500 * time.Millisecond }},
		{"ttl", []string{"2500000h0m1s", "2500000h0m0s"}, func(c *etcd.Config) { c.TTL = 9_000_000_001 * time.Second }},
		{"grace", []string{"166ms", "2s"}, func(c *etcd.Config) { c.Grace = 166 * time.Millisecond }},
		{"grace", []string{"1s", "2s"}, func(c *etcd.Config) { c.Grace = time.Second }},
		{"user", nil, func(c *etcd.Config) { c.Password = "secret" }},
		{"user", []string{"no password"}, func(c *etcd.Config) { c.User = "ann" }},
		{"prefix", []string{"a/"}, func(c *etcd.Config) { c.Prefix = "a/" }},
		{"prefix", nil, func(c *etcd.Config) { c.Prefix = "a\x00b" }},
	} {
		t.Run(c.field, func(t *testing.T) {
			config := etcd.Config{Endpoints: sharedServer(t).Addrs(), TTL: ttl}
			c.change(&config)
			st, err := etcd.Open(config)
			if err == nil {
				require.NoError(t, st.Close())
			}
			requireInvalid(t, err, c.field, c.parts...)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// A store and its settings show no password, with any verb.
func TestPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	config := etcd.Config{Endpoints: []string{"127.0.0.1:1"}, User: "ann", Password: secret, TTL: ttl}
	st := open(t, config)
	for _, value := range []any{config, &config, st, []any{config}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, secret, verb)
			require.NotContains(t, text, fmt.Sprintf("%x", secret), verb)
		}
	}
}

// The cluster decides about the TTL. If it grants another one, the store refuses it, with both values, before a ballot
// is cast: the arithmetic of the lease depends on it.
func TestTTLIsNotGranted(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, etcd.Config{TTL: time.Second})
	_, err := st.Cast(soon(t), election, "own")
	requireInvalid(t, err, "ttl", `"1s"`, "2s")
	require.True(t, store.Permanent(err))
	require.Empty(t, keys(t, operator(t), ackKey(election)))
	c := contend(t, st, election, "own")
	requireInvalid(t, receive(t, c.Ended, "Run's end"), "ttl", `"1s"`, "2s")
	require.Empty(t, keys(t, operator(t), ackKey(election)))
}

// The longest TTL that the cluster grants and that fits into a time.Duration.
func TestLongestTTL(t *testing.T) {
	t.Parallel()
	election := newElection()
	b := castFirst(t, open(t, etcd.Config{TTL: 9_000_000_000 * time.Second}), election, "own")
	require.Greater(t, b.Lease().Remaining(), 100*365*24*time.Hour)
	_, lease := ballotOf(t, operator(t), election, "own")
	info, err := operator(t).TimeToLive(soon(t), lease)
	require.NoError(t, err)
	require.EqualValues(t, 9_000_000_000, info.GrantedTTL)
}

// Several endpoints, some without a server: the store finds one that answers. The port may be left out.
func TestSeveralEndpoints(t *testing.T) {
	t.Parallel()
	election := newElection()
	server := sharedServer(t).Addrs()[0]
	castFirst(t, open(t, etcd.Config{Endpoints: []string{"127.0.0.1:1", server, "[::1]:1"}, TTL: middling}), election, "own")
	dialled := make(chan string, 1000)
	refuse := func(_ context.Context, _, address string) (net.Conn, error) {
		dialled <- address
		return nil, errors.New("refused by the test")
	}
	st := open(t, etcd.Config{Endpoints: []string{"localhost", "[::1]", "[::2]", "127.0.0.1:4"}, Dial: refuse})
	require.False(t, st.Worked())
	seen := map[string]bool{}
	for range 4 {
		_, _ = st.Ballots(within(t, 100*time.Millisecond), election)
		for len(seen) < 4 {
			seen[receive(t, dialled, "an attempt to connect")] = true
		}
	}
	require.Equal(t, map[string]bool{"localhost:2379": true, "[::1]:2379": true, "[::2]:2379": true, "127.0.0.1:4": true}, seen)
	_, err := st.Cast(soon(t), election, "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "refused by the test")
}

// All keys of an election are below the prefix.
func TestPrefix(t *testing.T) {
	t.Parallel()
	client := operator(t)
	unique := newElection()
	for _, prefix := range []string{unique + "/eu west", "/" + unique, unique + "+%2F"} {
		election := "mit Teilen/und ünicode"
		b := castFirst(t, open(t, etcd.Config{Prefix: prefix}), election, "own")
		leader := acknowledge(t, b, "\x00\xff")
		list := keys(t, client, prefix+"/")
		require.Len(t, list, 2)
		require.Regexp(t, `/mit Teilen/und ünicode/_ballots/[0-9a-f]+-[0-9a-f]{24}$`, list[0])
		require.Equal(t, prefix+"/"+election, list[1])
		resp, err := client.Get(soon(t), list[1])
		require.NoError(t, err)
		require.Equal(t, "\x00\xff", string(resp.Kvs[0].Value))
		require.EqualValues(t, leader.Revision, resp.Kvs[0].ModRevision)
		resp, err = client.Get(soon(t), list[0])
		require.NoError(t, err)
		require.EqualValues(t, b.Token(), resp.Kvs[0].CreateRevision)
	}
}

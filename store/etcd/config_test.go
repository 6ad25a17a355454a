package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Wrong settings are refused before anything is sent, with an error that names the field. All stores: TestOptionsAreRefusedAlike
// of store/all.
func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		field, part string
		change      func(c *Config)
	}{
		{"endpoints", "", func(c *Config) { c.Endpoints = nil }},
		{"endpoints", "host 1", func(c *Config) { c.Endpoints = []string{"http://user:secret@a:1"} }},
		{"client", "", func(c *Config) { c.Client = new(clientv3.Client) }},
		{"client", "", func(c *Config) { c.Endpoints, c.Client, c.TLS = nil, new(clientv3.Client), &tls.Config{} }},
		{"ttl", "multiple of 1s", func(c *Config) { c.TTL = 2500 * time.Millisecond }},
		{"ttl", "2500000h0m0s", func(c *Config) { c.TTL = 9_000_000_001 * time.Second }},
		{"user", "no password", func(c *Config) { c.User = "ann" }},
		{"prefix", "a/", func(c *Config) { c.Prefix = "a/" }},
		{"prefix", "", func(c *Config) { c.Prefix = "a\x00b" }},
	} {
		config := Config{Endpoints: []string{"127.0.0.1:1"}, TTL: shortest}
		c.change(&config)
		_, err := Open(config)
		requireInvalid(t, err, c.field, c.part)
		require.NotContains(t, err.Error(), "secret")
	}
}

// The longest TTL that the cluster grants and that fits into a time.Duration.
func TestLongestTTL(t *testing.T) {
	t.Parallel()
	election := newElection()
	b := castFirst(t, open(t, Config{TTL: 9_000_000_000 * time.Second}), election, "own")
	require.Greater(t, b.Lease().Remaining(), 100*365*24*time.Hour)
	_, lease := ballotOf(t, operator(t), election, "own")
	info, err := operator(t).TimeToLive(soon(t), lease)
	require.NoError(t, err)
	require.EqualValues(t, 9_000_000_000, info.GrantedTTL)
}

// Each endpoint is tried, at port 2379 if it names none, and an error says why none answers.
func TestSeveralEndpoints(t *testing.T) {
	t.Parallel()
	dialled := make(chan string, 1000)
	refuse := func(_ context.Context, _, address string) (net.Conn, error) {
		dialled <- address
		return nil, errors.New("refused by the test")
	}
	st := open(t, Config{Endpoints: []string{"localhost", "[::1]", "[::2]", "127.0.0.1:4"}, Dial: refuse, TTL: shortest})
	_, err := st.Cast(soon(t), "a", "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "refused by the test")
	_, err = st.Ballots(within(t, time.Second), "a")
	require.ErrorContains(t, err, "refused by the test")
	seen := map[string]bool{}
	for len(seen) < 4 {
		seen[receive(t, dialled, "an attempt to connect")] = true
	}
	require.Equal(t, map[string]bool{"localhost:2379": true, "[::1]:2379": true, "[::2]:2379": true, "127.0.0.1:4": true}, seen)
}

// The path of a URL is the prefix of all keys. An endpoint that does not answer does no harm.
func TestURL(t *testing.T) {
	t.Parallel()
	election, client := newElection(), operator(t)
	st := openAt(t, "etcd://127.0.0.1:1,"+sharedServer(t).Addrs()[0]+"/a%20b/"+election+"?ttl=40s")
	acknowledge(t, castFirst(t, st, "e/ü", "own"), "own")
	list := keys(t, client, "a b/"+election+"/")
	require.Len(t, list, 2)
	require.Regexp(t, `/e/ü/_ballots/[0-9a-f]+-[0-9a-f]{24}$`, list[0])
	require.Equal(t, "a b/"+election+"/e/ü", list[1])
	require.NoError(t, st.Close())
	require.Empty(t, keys(t, client, "a b/"+election))
}

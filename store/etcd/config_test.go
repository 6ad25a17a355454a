package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Wrong settings are refused before anything is sent, with an error that names the field and the value.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	client := operator(t)
	for _, c := range []struct {
		field  string
		parts  []string
		change func(c *Config)
	}{
		{"endpoints", nil, func(c *Config) { c.Endpoints = nil }},
		{"endpoints", []string{"host 1"}, func(c *Config) { c.Endpoints = []string{"http://a:1"} }},
		{"endpoints", nil, func(c *Config) { c.Endpoints = []string{"user:secret@a:2379"} }},
		{"client", nil, func(c *Config) { c.Client = client }},
		{"client", nil, func(c *Config) { c.Endpoints, c.Client, c.TLS = nil, client, &tls.Config{} }},
		{"client", nil, func(c *Config) { c.Endpoints, c.Client, c.User = nil, client, "ann" }},
		{"client", nil, func(c *Config) { c.Endpoints, c.Client, c.Dial = nil, client, conformance.NewNetwork().Dial }},
		{"ttl", []string{"999ms", "1s"}, func(c *Config) { c.TTL = 999 * time.Millisecond }},
		{"ttl", []string{"2.5s", "multiple of 1s"}, func(c *Config) { c.TTL = 2500 * time.Millisecond }},
		{"ttl", []string{"2500000h0m1s", "2500000h0m0s"}, func(c *Config) { c.TTL = 9_000_000_001 * time.Second }},
		{"grace", []string{"166ms", "2s"}, func(c *Config) { c.Grace = 166 * time.Millisecond }},
		{"grace", []string{"1s", "2s"}, func(c *Config) { c.Grace = time.Second }},
		{"user", nil, func(c *Config) { c.Password = "secret" }},
		{"user", []string{"no password"}, func(c *Config) { c.User = "ann" }},
		{"prefix", []string{"a/"}, func(c *Config) { c.Prefix = "a/" }},
		{"prefix", nil, func(c *Config) { c.Prefix = "a\x00b" }},
	} {
		t.Run(c.field, func(t *testing.T) {
			config := Config{Endpoints: sharedServer(t).Addrs(), TTL: shortest}
			c.change(&config)
			st, err := Open(config)
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
	config := Config{Endpoints: []string{"127.0.0.1:1"}, User: "ann", Password: secret, TTL: shortest}
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
	st := open(t, Config{TTL: time.Second})
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
	b := castFirst(t, open(t, Config{TTL: 9_000_000_000 * time.Second}), election, "own")
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
	castFirst(t, open(t, Config{Endpoints: []string{"127.0.0.1:1", server, "[::1]:1"}}), election, "own")
	dialled := make(chan string, 1000)
	refuse := func(_ context.Context, _, address string) (net.Conn, error) {
		dialled <- address
		return nil, errors.New("refused by the test")
	}
	st := open(t, Config{Endpoints: []string{"localhost", "[::1]", "[::2]", "127.0.0.1:4"}, Dial: refuse, TTL: shortest})
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

// Files that are not what they should be are refused at once.
func TestTLSFiles(t *testing.T) {
	t.Parallel()
	junk := filepath.Join(t.TempDir(), "junk.pem")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	for option, raw := range map[string]string{
		"cacert": "etcd+tls://a/b?cacert=" + junk,
		"cert":   "etcd+tls://a/b?cert=" + junk + "&key=" + junk,
	} {
		_, err := store.Open(t.Context(), raw, nil)
		requireInvalid(t, err, option, junk)
	}
	_, err := store.Open(t.Context(), "etcd://a/b?cacert="+junk, nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "cacert")
}

// All parts of a URL reach their settings: endpoints, prefix, TTL, grace.
func TestURL(t *testing.T) {
	t.Parallel()
	election := newElection()
	client := operator(t)
	server := sharedServer(t).Addrs()[0]
	st := openAt(t, "etcd://127.0.0.1:1,"+server+"/a%20b/"+election+"?ttl=40s&grace=7s")
	b := castFirst(t, st, "e", "own")
	list := keys(t, client, "a b/"+election+"/e/_ballots/")
	require.Len(t, list, 1)
	resp, err := client.Get(soon(t), list[0])
	require.NoError(t, err)
	require.EqualValues(t, b.Token(), resp.Kvs[0].CreateRevision)
	renewal := b.Lease().Last()
	require.Equal(t, 33*time.Second, renewal.Deadline.Sub(renewal.Sent))
	require.NoError(t, st.Close())
	require.Empty(t, keys(t, client, "a b/"+election))

	// The defaults.
	b = castFirst(t, openAt(t, "etcd://"+server), election, "own")
	require.Len(t, keys(t, client, "leadership/"+election+"/_ballots/"), 1)
	renewal = b.Lease().Last()
	require.Equal(t, (10*time.Second - 10*time.Second/3), renewal.Deadline.Sub(renewal.Sent))
}

// User and password reach their settings, whatever the password is read from.
func TestURLPassword(t *testing.T) {
	config := user(t, sharedGuarded(t))
	userAt := "etcd://" + config.User
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	t.Setenv("ETCD_TEST_PASSWORD", secret)
	for _, raw := range []string{
		userAt + ":s3cret%3A%20pass%2Fword@" + config.Endpoints[0],
		userAt + "@" + config.Endpoints[0] + "?passwordfile=" + file,
		userAt + "@" + config.Endpoints[0] + "?passwordenv=ETCD_TEST_PASSWORD",
	} {
		castFirst(t, openAt(t, raw), newElection(), "own")
	}
}

// A URL that can't be used is refused at once. The error names the option and its value, without the password.
func TestURLIsChecked(t *testing.T) {
	t.Parallel()
	for raw, parts := range map[string][]string{
		"etcd:///a":                    {"endpoints"},
		"etcd://":                      {"endpoints"},
		"etcd://a?ttl=1500ms":          {"ttl", "1.5s"},
		"etcd://a?ttl=2s&grace=1s":     {"grace", "1s", "2s"},
		"etcd://a?tll=3s":              {"tll", "ttl", "grace"},
		"etcd://a?cacert=b":            {"cacert", "etcd+tls://"},
		"etcd+tls://a?cacert=/nowhere": {"cacert", "/nowhere"},
		"etcd://ann@a":                 {"user", "no password", "no password"},
		"etcd://ann:secret@a?ttl=x":    {"ttl", "x"},
		"etcd://ann:secret@a:b":        {"host 1"},
		"etcd+ssl://a":                 {"etcd+ssl", "etcd+tls"},
	} {
		t.Run(raw, func(t *testing.T) {
			_, err := store.Open(t.Context(), raw, nil)
			require.ErrorIs(t, err, store.ErrInvalid)
			for _, part := range parts {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

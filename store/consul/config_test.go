package consul_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

func TestConfigRefusals(t *testing.T) {
	one := []string{"127.0.0.1:8500"}
	for _, c := range []struct {
		field  string
		part   string
		config consul.Config
	}{
		{"addresses", "none", consul.Config{}},
		{"addresses", "host 1", consul.Config{Addresses: []string{"a b:1"}}},
		{"addresses", "65535", consul.Config{Addresses: []string{"h:0"}}},
		{"addresses", "one alone", consul.Config{Addresses: []string{"a", "b"}, TTL: 5 * time.Second}},
		{"client", "own", consul.Config{Addresses: one, Client: &api.Client{}}},
		{"client", "own", consul.Config{Token: "s3cr3t", Client: &api.Client{}}},
		{"client", "own", consul.Config{TLS: &tls.Config{}, Client: &api.Client{}}},
		{"client", "own", consul.Config{Dial: (&net.Dialer{}).DialContext, Client: &api.Client{}}},
		{"ttl", "from 1s to 24h0m0s", consul.Config{Addresses: one, TTL: 999 * time.Millisecond}},
		{"ttl", "from 1s to 24h0m0s", consul.Config{Addresses: one, TTL: -time.Second}},
		{"ttl", "from 1s to 24h0m0s", consul.Config{Addresses: one, TTL: 25 * time.Hour}},
		{"ttl", "multiple of 1ms", consul.Config{Addresses: one, TTL: time.Second + time.Microsecond}},
		{"grace", "half", consul.Config{Addresses: one, Grace: 5 * time.Second}},
		{"grace", "twelfth", consul.Config{Addresses: one, Grace: time.Millisecond}},
		{"grace", "twelfth", consul.Config{Addresses: one, Grace: -time.Second}},
		{"prefix", "path", consul.Config{Addresses: one, Prefix: "/a"}},
		{"prefix", "path", consul.Config{Addresses: one, Prefix: "a//b"}},
		{"prefix", "path", consul.Config{Addresses: one, Prefix: "a/../b"}},
		{"token", "line break", consul.Config{Addresses: one, Token: "s3cr3t\n"}},
	} {
		_, err := consul.Open(c.config)
		requireInvalid(t, err, c.field, c.part)
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}

func TestURLRefusals(t *testing.T) {
	for raw, want := range map[string][2]string{
		"consul://":                                  {"addresses", "none"},
		"consul://user:s3cr3t@h":                     {"user", "consul://:token@host"},
		"consul://h/?ttl=0.5s":                       {"ttl", "from 1s"},
		"consul://h/?ttl=0s":                         {"ttl", "session needs one"},
		"consul://h/?lockdelay=2m":                   {"lockdelay", "cleanup_dead_servers=false"},
		"consul://:s3cr3t@h/?datacenter=x":           {"consul URL", "dc"},
		"consul://:s3cr3t@h/?cacert=x":               {"consul URL", "consul+tls://"},
		"consul+tls://:s3cr3t@h/?cacert=/no/such":    {"cacert", "/no/such"},
		"consul://a,b/?ttl=2s":                       {"addresses", "one alone"},
		"consul://:s3cr3t@h/?ttl=10s&grace=9s":       {"grace", "half"},
		"consul://:s3cr3t@h/a//b":                    {"prefix", "path"},
		"consul://:s3cr3t@h:8500/?ttl=1s&ttl=2s":     {"consul URL", "2 times"},
		"consul://:s3cr3t@h:8500/?passwordenv=TOKEN": {"consul URL", "twice"},
	} {
		_, err := store.Open(context.Background(), raw, nil)
		requireInvalid(t, err, want[0], want[1])
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}

// Every option of a URL reaches its setting.
func TestURL(t *testing.T) {
	tp := newTap(t)
	election := newElection()
	st, err := store.Open(context.Background(),
		"consul://:to%3Aken@"+tp.addr()[0]+"/prod%20url/eu?ttl=12s&grace=2s&dc=dc1", nil)
	require.NoError(t, err)
	defer st.Close()
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "value")
	pair, _, err := operator(t, sharedServer(t)).KV().Get("prod url/eu/"+election, nil)
	require.NoError(t, err)
	require.Equal(t, "value", string(pair.Value))
	last := b.Lease().Last()
	require.Equal(t, 10*time.Second, last.Deadline.Sub(last.Sent))
	require.Equal(t, 1, tp.Count("PUT", "session/create", "dc=dc1", `"TTL":"12s"`, `"LockDelay":"0s"`, `"NodeChecks":[]`))
	require.Zero(t, tp.Count("ns="))
	require.Zero(t, tp.Count("partition="))
	require.Zero(t, tp.Count("to:ken"), "the token goes in a header")
}

// The store does not read the environment variables of Consul's own tools.
func TestEnvironmentIsNotRead(t *testing.T) {
	for name, value := range map[string]string{
		"CONSUL_HTTP_ADDR": "127.0.0.1:1", "CONSUL_HTTP_TOKEN": "s3cr3t", "CONSUL_HTTP_TOKEN_FILE": "/no/such/file",
		"CONSUL_HTTP_SSL": "true", "CONSUL_NAMESPACE": "elsewhere", "CONSUL_PARTITION": "elsewhere",
		"CONSUL_HTTP_AUTH": "user:password", "CONSUL_CACERT": "/no/such/file",
	} {
		t.Setenv(name, value)
	}
	tp := newTap(t)
	b := castFirst(t, open(t, consul.Config{Addresses: tp.addr()}), newElection(), "own")
	acknowledge(t, b, "own")
	require.Zero(t, tp.Count("elsewhere"))
	require.Zero(t, tp.Count("s3cr3t"))
}

// A ttl that the servers refuse is refused with the range that they grant.
func TestServersRefuseTheTTL(t *testing.T) {
	tp := newTap(t)
	tp.catch(answer(500, "rpc error making call: Invalid Session TTL '10000000000', must be between [30s=24h0m0s]"), "session/create")
	_, err := open(t, consul.Config{Addresses: tp.addr()}).Cast(soon(t), newElection(), "own")
	requireInvalid(t, err, "ttl", "[30s=24h0m0s]")
}

func TestDatacenter(t *testing.T) {
	st := open(t, consul.Config{Datacenter: "elsewhere"})
	_, err := st.Cast(soon(t), newElection(), "own")
	require.ErrorIs(t, err, store.ErrUnavailable) // servers that have started don't know the others yet
	require.ErrorContains(t, err, `dc "elsewhere"`)
	eventually(t, func() bool { // on a busy machine the agent's answer can take longer
		_, err := storetest.Leader(within(t, time.Second), st, newElection(), nil)
		return err != nil && strings.Contains(err.Error(), `dc "elsewhere"`)
	}, "the datacenter is named")
	_, err = open(t, consul.Config{Namespace: "team"}).Cast(soon(t), newElection(), "own")
	requireInvalid(t, err, "namespace or partition", "Enterprise")
	require.False(t, strings.Contains(err.Error(), "unknown"))
}

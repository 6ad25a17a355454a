package consul_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// What TestOptionsAreRefusedAlike of package all does not refuse.
func TestRefusals(t *testing.T) {
	one := []string{"127.0.0.1:8500"}
	for _, c := range []struct {
		field  string
		part   string
		config consul.Config
	}{
		{"addresses", "none", consul.Config{}},
		{"addresses", "65535", consul.Config{Addresses: []string{"h:0"}}},
		{"addresses", "one alone", consul.Config{Addresses: []string{"a", "b"}, TTL: 5 * time.Second}},
		{"client", "own", consul.Config{Addresses: one, Client: &api.Client{}}},
		{"client", "own", consul.Config{Dial: (&net.Dialer{}).DialContext, Client: &api.Client{}}},
		{"ttl", "from 1s to 24h0m0s", consul.Config{Addresses: one, TTL: 999 * time.Millisecond}},
		{"ttl", "from 1s to 24h0m0s", consul.Config{Addresses: one, TTL: 25 * time.Hour}},
		{"ttl", "multiple of 1ms", consul.Config{Addresses: one, TTL: time.Second + time.Microsecond}},
		{"prefix", "path", consul.Config{Addresses: one, Prefix: "/a"}},
		{"prefix", "path", consul.Config{Addresses: one, Prefix: "a//b"}},
		{"prefix", "path", consul.Config{Addresses: one, Prefix: "a/./b"}},
		{"prefix", "a-z", consul.Config{Addresses: one, Prefix: "a/../b"}},
		{"prefix", "a-z", consul.Config{Addresses: one, Prefix: "a b"}},
		{"token", "line break", consul.Config{Addresses: one, Token: "s3cr3t\n"}},
	} {
		_, err := consul.Open(c.config)
		requireInvalid(t, err, c.field, c.part)
		require.NotContains(t, err.Error(), "s3cr3t")
	}
	for raw, want := range map[string][2]string{
		"consul://user:s3cr3t@h":           {"user", "consul://:token@host"},
		"consul://h/?lockdelay=2m":         {"lockdelay", "cleanup_dead_servers=false"},
		"consul://:s3cr3t@h/?datacenter=x": {"consul URL", "dc"},
	} {
		_, err := store.Open(context.Background(), raw, nil)
		requireInvalid(t, err, want[0], want[1])
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}

// Every option of a URL reaches its setting.
func TestURL(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	election := newElection()
	st, err := store.Open(context.Background(),
		"consul://:to%3Aken@"+tp.addr()[0]+"/prod-url/eu?ttl=12s&grace=2s&dc=dc1", nil)
	require.NoError(t, err)
	defer st.Close()
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "value")
	pair, _, err := operator(t, sharedServer(t)).KV().Get("prod-url/eu/"+election, nil)
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

func TestDatacenter(t *testing.T) {
	t.Parallel()
	st := open(t, consul.Config{Datacenter: "elsewhere"})
	_, err := st.Cast(soon(t), newElection(), "own")
	require.ErrorIs(t, err, store.ErrUnavailable) // servers that have started don't know the others yet
	require.ErrorContains(t, err, `dc "elsewhere"`)
	require.ErrorContains(t, err, "no such datacenter")
	require.False(t, store.Refused(err), "that is not final: %v", err)
	eventually(t, func() bool { // on a busy machine the agent's answer can take longer
		_, err := storetest.Leader(within(t, time.Second), st, newElection(), nil)
		return err != nil && strings.Contains(err.Error(), `dc "elsewhere"`)
	}, "the datacenter is named")
	_, err = open(t, consul.Config{Namespace: "team"}).Cast(soon(t), newElection(), "own")
	requireInvalid(t, err, "namespace or partition", "Enterprise")
	require.False(t, strings.Contains(err.Error(), "unknown"))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{TLS: testserver.MutualTLS})
	otherCert, otherKey := strangersCertificate(t)
	with := func(changes ...string) string { // name and value in turn
		options := url.Values{"ttl": {"10s"}, "cacert": {srv.CACert}, "cert": {srv.ClientCert}, "key": {srv.ClientKey}}
		for i := 0; i < len(changes); i += 2 {
			if options.Set(changes[i], changes[i+1]); changes[i+1] == "" {
				options.Del(changes[i])
			}
		}
		return "consul+tls://" + srv.Addrs()[0] + "/?" + options.Encode()
	}
	t.Run("a whole election", func(t *testing.T) {
		t.Parallel()
		election := newElection()
		first, second := castFirst(t, openURL(t, with("ttl", "1m")), election, "1"), cast(t, openURL(t, with("ttl", "9s")), election, "2")
		acknowledge(t, first, "1")
		waiting(t, second)
		require.NoError(t, first.Withdraw(soon(t)))
		require.NoError(t, second.Wait(soon(t)))
		acknowledge(t, second, "2")
	})
	// The connection can't be made, ever: the error must soon say why.
	for name, c := range map[string]struct{ url, reason string }{
		"another authority":        {with("ttl", "1m", "cacert", otherCert), "certificate signed by unknown authority"},
		"another name":             {with("ttl", "1m", "servername", "other.example"), "other.example"},
		"a stranger's certificate": {with("ttl", "1m", "cert", otherCert, "key", otherKey), "certificate"},
		"no certificate":           {with("ttl", "1m", "cert", "", "key", ""), "certificate"},
		"no TLS":                   {"consul://" + srv.Addrs()[0] + "?ttl=1m", "consul+tls"},
		"TLS where there is none":  {"consul+tls://" + sharedServer(t).Addrs()[0] + "?ttl=1m", "the scheme has to be consul"},
		"something else":           {"consul://" + storetest.SilentServer(t) + "?ttl=2s", "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := openURL(t, c.url)
			began := time.Now()
			_, err := st.Cast(soon(t), newElection(), "own")
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, c.reason)
			require.ErrorContains(t, err, strings.TrimRight(strings.SplitN(c.url, "?", 2)[0], "/"))
			require.Less(t, time.Since(began), time.Minute, "it has retried for two TTLs")
		})
	}
}

// strangersCertificate returns the files of a certificate that no agent of these tests knows, and of its key.
func strangersCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	file := func(kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), "stranger.pem")
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return file("CERTIFICATE", srv.Certificate().Raw), file("PRIVATE KEY", pkcs8)
}

// A caller's client still works when the store is closed. TestDriver has what it does for the store.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: sharedServer(t).Addrs()[0], HttpClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	for _, ttl := range []time.Duration{checked, long} {
		election := newElection()
		first, second := open(t, consul.Config{Client: client, TTL: ttl}), open(t, consul.Config{Client: client, TTL: ttl})
		leader, waiter := castFirst(t, first, election, "1"), cast(t, second, election, "2")
		acknowledge(t, leader, "1")
		waiting(t, waiter)
		require.NoError(t, first.Close())
		require.NoError(t, waiter.Wait(soon(t)))
		acknowledge(t, waiter, "2")
		require.NoError(t, second.Close())
		pair, _, err := client.KV().Get(ackKey(election), nil)
		require.NoError(t, err)
		require.Nil(t, pair)
		require.Empty(t, ballotKeys(t, client, election))
	}
}

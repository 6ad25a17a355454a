package testserver

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grantedTTL asks the server for a lease of a second.
func grantedTTL(t *testing.T, e *Etcd) string {
	answer, err := e.caller.call(bounded(t), http.MethodPost, e.Addrs()[0], "/v3/lease/grant", nil, map[string]any{"TTL": 1})
	require.NoError(t, err)
	var lease struct{ TTL string }
	require.NoError(t, json.Unmarshal(answer, &lease))
	return lease.TTL
}

func TestEtcdElectionTimeout(t *testing.T) {
	t.Parallel()
	usual := NewEtcd(t, EtcdConfig{TLS: ServerTLS})
	requireTLS(t, usual.Addrs()[0], usual.Certificates, ServerTLS)
	require.Equal(t, "2", grantedTTL(t, usual))
	fast := NewEtcd(t, EtcdConfig{
		Heartbeat:       10 * time.Millisecond,
		ElectionTimeout: 100 * time.Millisecond,
		Extra:           []string{"--unsafe-no-fsync"},
	})
	require.Equal(t, "1", grantedTTL(t, fast))
	requireClosed(t, fast.service)
}

func TestEtcdAuth(t *testing.T) {
	t.Parallel()
	e := NewEtcd(t, EtcdConfig{Members: 3, TLS: MutualTLS, Auth: true})
	requireTLS(t, e.Addrs()[0], e.Certificates, MutualTLS)
	require.NoError(t, e.AddUser(bounded(t), "ann", "secret", "a/"))
	require.ErrorContains(t, e.AddUser(bounded(t), "ann", "secret", "a/"), "already exists")
	require.ErrorContains(t, e.AddUser(bounded(t), "bob", "secret", ""), "without a prefix")

	answer, err := e.request(bounded(t), "", step{"authenticate", map[string]any{"name": "ann", "password": "secret"}})
	require.NoError(t, err)
	var ann struct{ Token string }
	require.NoError(t, json.Unmarshal(answer, &ann))
	i, err := e.Leader()
	require.NoError(t, err)
	put := func(token, key string) error {
		_, err := e.caller.call(bounded(t), http.MethodPost, e.Addrs()[i], "/v3/kv/put",
			http.Header{"Authorization": {token}}, map[string][]byte{"key": []byte(key)})
		return err
	}
	require.NoError(t, put(ann.Token, "a/1"))
	require.ErrorContains(t, put(ann.Token, "b"), "permission denied")
	require.Error(t, put("", "a/1"))

	m := e.Member(0)
	require.NoError(t, m.Stop())
	require.NoError(t, m.Start(bounded(t)))
	require.NoError(t, e.Ready(bounded(t)), "authentication must not hide that it serves")
}

func TestPrefixEnd(t *testing.T) {
	require.Equal(t, []byte("a0"), prefixEnd("a/"))
	require.Equal(t, []byte("b"), prefixEnd("a\xff"))
	require.Equal(t, []byte{0}, prefixEnd("\xff\xff"))
}

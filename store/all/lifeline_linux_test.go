package all_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A waiter leads as soon as the leader's process is dead, however it dies, and long before the TTL, with a lifeline of
// the machine and with one of the program's own.
func TestLifeline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, ttl string }{
		{"zookeeper", "ttl=10s"},                                         // the server grants no more
		{"etcd", "ttl=20s"}, {"consul", "ttl=20s"}, {"consul", "ttl=9s"}, // with a check
	} {
		t.Run(c.kind+" "+c.ttl, func(t *testing.T) {
			t.Parallel()
			for _, place := range []string{storetest.ServeLifeline(t), "self"} {
				t.Log(place, storetest.Lifeline(t, on(t, c.kind, c.ttl), place))
			}
		})
	}
}

// With users, ACLs and TLS, a lifeline needs no more than a candidate does.
func TestLifelineWithCredentials(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		server := testserver.NewEtcd(t, testserver.EtcdConfig{TLS: testserver.ServerTLS, Auth: true})
		require.NoError(t, server.AddUser(soon(t), "ann", "secret", "prod/"))
		t.Setenv("ETCD_PASSWORD", "secret")
		storetest.Lifeline(t, "etcd+tls://ann@"+server.Addrs()[0]+"/prod?ttl=20s&passwordenv=ETCD_PASSWORD&cacert="+server.CACert, storetest.ServeLifeline(t))
	})
	t.Run("etcd, mutual TLS", func(t *testing.T) {
		server := testserver.NewEtcd(t, testserver.EtcdConfig{TLS: testserver.MutualTLS})
		storetest.Lifeline(t, "etcd+tls://"+server.Addrs()[0]+"/?ttl=20s&cacert="+server.CACert+"&cert="+server.ClientCert+"&key="+server.ClientKey, "self")
	})
	t.Run("consul", func(t *testing.T) {
		server := testserver.NewConsul(t, testserver.ConsulConfig{TLS: testserver.MutualTLS, ACL: true})
		token, err := server.CreateToken(soon(t), `key_prefix "prod/" { policy = "write" } session_prefix "" { policy = "write" } service "leadership" { policy = "write" }`)
		require.NoError(t, err)
		t.Setenv("CONSUL_TOKEN", token)
		for _, ttl := range []string{"20s", "9s"} {
			storetest.Lifeline(t, "consul+tls://"+server.Addrs()[0]+"/prod?passwordenv=CONSUL_TOKEN&cacert="+server.CACert+"&cert="+server.ClientCert+"&key="+server.ClientKey+"&ttl="+ttl, storetest.ServeLifeline(t))
		}
	})
	t.Run("zookeeper", func(t *testing.T) {
		storetest.Lifeline(t, "zookeeper://ann:secret@"+address(t, "zookeeper")+"/?root=/ofann&ttl=10s", storetest.ServeLifeline(t))
	})
}

// A store that can have no lifeline says why.
func TestLifelineIsRefused(t *testing.T) {
	for url, reason := range map[string]string{
		"file:///dev/shm/x?lifeline=self":    "the kernel ends the session of a process that is dead",
		"memory://x?lifeline=self":           "the store ends with its process",
		"etcd://h:1/?lifeline=relative/path": "absolute path",
		"consul://h:1/?lifeline=":            "given and empty",
		"zookeeper://h:1/?lifeline=a":        "absolute path",
	} {
		_, err := store.Open(soon(t), url, nil)
		requireInvalid(t, err, "lifeline")
		require.ErrorContains(t, err, reason, url)
	}
}

// The same for what a URL can't say.
func TestLifelineOfAConfigIsRefused(t *testing.T) {
	dial := (&net.Dialer{}).DialContext
	lifeline := "/run/lifeline"
	for name, open := range map[string]func() (store.Store, error){
		"another process can't use the function that dials": func() (store.Store, error) {
			return etcd.Open(etcd.Config{Endpoints: []string{"h:1"}, Lifeline: lifeline, Dial: dial})
		},
		"another process can't use these TLS settings": func() (store.Store, error) {
			return zookeeper.Open(zookeeper.Config{Servers: []string{"h:1"}, Lifeline: lifeline, TLS: &tls.Config{}})
		},
		"it needs a client of the store's own": func() (store.Store, error) {
			return consul.Open(consul.Config{Client: &api.Client{}, Lifeline: lifeline})
		},
	} {
		_, err := open()
		requireInvalid(t, err, "lifeline")
		require.ErrorContains(t, err, name)
	}
}

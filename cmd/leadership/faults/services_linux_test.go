package faults

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	"github.com/stretchr/testify/require"
)

// service holds the elections of trials.
type service struct {
	name     string
	network  bool
	patience time.Duration // from a fault to the rival's command, besides two TTLs, on an idle machine
	url      func(*cell) string
	standing func(*testing.T, *cell) int // how many ballots stand; nil: unknown
}

// files are elections in a directory of each cell.
var files = &service{
	name: "file",
	url:  func(c *cell) string { return "file://" + c.dir + "/store?ttl=" + c.ttl.String() },
	standing: func(t *testing.T, c *cell) (n int) {
		ballots, err := filepath.Glob(c.dir + "/store/e/" + c.election() + "/_b/*")
		require.NoError(t, err)
		for _, ballot := range ballots {
			if !strings.HasPrefix(filepath.Base(ballot), "~") {
				n++
			}
		}
		return n
	},
}

// servers are elections on a server.
func servers(t *testing.T, scheme, address string) *service {
	url := func(ttl time.Duration) string { return scheme + "://" + address + "/?ttl=" + ttl.String() }
	st, err := store.Open(t.Context(), url(ttl), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return &service{
		name: scheme, network: true, patience: time.Second,
		url: func(c *cell) string { return url(c.ttl) },
		standing: func(t *testing.T, c *cell) int {
			ballots, err := st.Ballots(t.Context(), c.election())
			require.NoError(t, err)
			return len(ballots)
		},
	}
}

// without are the same elections without a lifeline: there is none at the path that the URL names.
func (s service) without(t *testing.T) *service {
	url, none := s.url, publicDir(t)+"/none"
	s.name += " without a lifeline"
	s.url = func(c *cell) string { return url(c) + "&lifeline=" + none }
	return &s
}

// locks are elections by a server's own command.
func locks(name, address string, patience time.Duration) *service {
	return &service{name: name, network: true, patience: patience, url: func(*cell) string { return address }}
}

// sharedEtcd returns the server that all tests share.
var sharedEtcd = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Extra: []string{"--unsafe-no-fsync"}})

// stores starts a server of each kind, and returns a service for each.
func stores(t *testing.T) (zookeeper, etcd, consul *service, etcdAddress, consulAddress string) {
	z := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{Extra: map[string]string{"maxSessionTimeout": "60000"}})
	e := sharedEtcd(t)
	c := testserver.NewConsul(t, testserver.ConsulConfig{})
	etcdAddress, consulAddress = e.Addrs()[0], c.Addrs()[0]
	return servers(t, "zookeeper", z.Addrs()[0]), servers(t, "etcd", etcdAddress), servers(t, "consul", consulAddress), etcdAddress, consulAddress
}

// withLocks adds the programs that the comparison runs.
func (p programs) withLocks(t *testing.T) programs {
	p.consul, p.etcdctl = find(t, binary.Consul, p.dir), find(t, binary.Etcdctl, p.dir)
	return p
}

package consul_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// The node of the only agent with candidates is deregistered. One leads again at once, since the store makes the agent
// register its node. The agent itself does that about once a minute.
func TestNodeOfAllIsDeregistered(t *testing.T) {
	for _, ttl := range []time.Duration{checked, long} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
			election := newElection()
			run := contend(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, TTL: ttl}), election, "own")
			term := receive(t, run.Terms, "the first term")
			began := time.Now()
			deregister(t, srv, nodeOf(t, srv, election))
			receive(t, term.Context().Done(), "its end")
			receive(t, run.Terms, "the next term")
			t.Logf("a leader after %v", time.Since(began))
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

// nodeOf returns the node of the candidate with the value "own".
func nodeOf(t *testing.T, srv *testserver.Consul, election string) string {
	t.Helper()
	client := operator(t, srv)
	info, _, err := client.Session().Info(sessionOf(t, client, election, "own"), nil)
	require.NoError(t, err)
	return info.Node
}

func deregister(t *testing.T, srv *testserver.Consul, node string) {
	t.Helper()
	_, err := operator(t, srv).Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil)
	require.NoError(t, err)
}

// A client agent starts again without its data directory, before the servers have missed it: they refuse what it registers
// under the name of its node, since they know another id for it. Sessions without a check are created all the same. One
// with a check is, as soon as the old node is deregistered.
func TestAgentLosesItsData(t *testing.T) {
	for _, ttl := range []time.Duration{checked, long} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
			election, agent := newElection(), srv.Client()
			run := contend(t, open(t, consul.Config{Addresses: []string{agent.Addr()}, TTL: ttl}), election, "own")
			term := receive(t, run.Terms, "the first term")
			node := nodeOf(t, srv, election)
			require.NoError(t, agent.Kill())
			require.NoError(t, agent.RemoveData())
			require.NoError(t, agent.Start(soon(t)))
			receive(t, term.Context().Done(), "its end")
			if ttl == checked {
				eventually(t, func() bool {
					return slices.ContainsFunc(run.Errors(), func(err error) bool { return strings.Contains(err.Error(), "Missing check") })
				}, "the cause")
				deregister(t, srv, node)
			}
			began := time.Now()
			receive(t, run.Terms, "the next term")
			t.Logf("a leader after %v", time.Since(began))
		})
	}
}

package consul_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// Cases in which a session ends early. The holder is told by its watch, long before the next renewal.
func TestSessionEndsEarly(t *testing.T) {
	client := operator(t, sharedServer(t))
	for name, c := range map[string]struct {
		ttl time.Duration
		end func(t *testing.T, session string)
	}{
		"destroyed by an operator": {long, func(t *testing.T, session string) {
			_, err := client.Session().Destroy(session, nil)
			require.NoError(t, err)
		}},
		"destroyed, with a check": {checked, func(t *testing.T, session string) {
			_, err := client.Session().Destroy(session, nil)
			require.NoError(t, err)
		}},
		"its check's service deregistered": {checked, func(t *testing.T, session string) {
			info, _, err := client.Session().Info(session, nil)
			require.NoError(t, err)
			require.NoError(t, client.Agent().ServiceDeregister(info.Name))
		}},
		"its check turned critical": {checked, func(t *testing.T, session string) {
			info, _, err := client.Session().Info(session, nil)
			require.NoError(t, err)
			require.NoError(t, client.Agent().FailTTL(info.Name, "by hand"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			st := open(t, consul.Config{TTL: c.ttl})
			leader, second := castFirst(t, st, election, "leader"), cast(t, st, newElection(), "another election")
			acknowledge(t, leader, "leader")
			next := cast(t, open(t, consul.Config{}), election, "next")
			session := sessionOf(t, client, election, "leader")
			began := time.Now()
			c.end(t, session)
			lost(t, leader)
			require.Less(t, time.Since(began), c.ttl/4, "it waited for the next renewal")
			lost(t, second)
			eventually(t, func() bool { return leader.Lease().Remaining() == 0 }, "the lease has ended")
			require.NoError(t, next.Wait(soon(t)))
			acknowledge(t, next, "next")
			require.NoError(t, leader.Withdraw(soon(t)))
			again := cast(t, st, election, "again") // with a session of its own
			require.Greater(t, again.Token(), next.Token())
			waiting(t, again)
		})
	}
}

// The services of ended sessions and of closed stores are removed.
func TestServicesAreDeregistered(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	client := operator(t, srv)
	st := open(t, consul.Config{Addresses: srv.Addrs(), TTL: short})
	election := newElection()
	services := func() int {
		list, err := client.Agent().Services()
		require.NoError(t, err)
		return len(list)
	}
	b := castFirst(t, st, election, "own")
	require.Equal(t, 1, services())
	_, err := client.Session().Destroy(sessionOf(t, client, election, "own"), nil)
	require.NoError(t, err)
	lost(t, b)
	eventually(t, func() bool { return services() == 0 }, "the service of the session is gone")
	castFirst(t, st, election, "own")
	require.NoError(t, st.Close())
	require.Zero(t, services())
	sessions, _, err := client.Session().List(nil)
	require.NoError(t, err)
	require.Empty(t, sessions)
}

// If a node is deregistered its sessions end, those without a check too.
func TestNodeIsDeregistered(t *testing.T) {
	for _, ttl := range []time.Duration{checked, long} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
			client := operator(t, srv)
			election := newElection()
			b := castFirst(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, TTL: ttl}), election, "own")
			info, _, err := client.Session().Info(sessionOf(t, client, election, "own"), nil)
			require.NoError(t, err)
			began := time.Now()
			_, err = client.Catalog().Deregister(&api.CatalogDeregistration{Node: info.Node}, nil)
			require.NoError(t, err)
			lost(t, b)
			require.Less(t, time.Since(began), ttl/4, "it waited for the next renewal")
			eventually(t, func() bool { return b.Lease().Remaining() == 0 }, "the lease has ended")
		})
	}
}

// A client agent that is stopped leaves its cluster, and the sessions of its node end; with one that is killed they do
// not. The holder stops at once in both cases, and stands again when the agent is back.
func TestAgentGoes(t *testing.T) {
	for name, end := range map[string]func(m *testserver.Member) error{
		"stopped": (*testserver.Member).Stop,
		"killed":  (*testserver.Member).Kill,
	} {
		for _, ttl := range []time.Duration{checked, long} {
			t.Run(name+" "+ttl.String(), func(t *testing.T) {
				t.Parallel()
				srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
				election := newElection()
				leader := contend(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, TTL: ttl}), election, "leader")
				term := receive(t, leader.Terms, "the first term")
				next := contend(t, open(t, consul.Config{Addresses: srv.Addrs()[:1], TTL: ttl}), election, "next")
				eventually(t, func() bool { return len(ballotKeys(t, operator(t, srv), election)) == 2 }, "both stand")
				began := time.Now()
				ended := make(chan error, 1)
				go func() { ended <- end(srv.Client()) }()
				receive(t, term.Context().Done(), "the end of the term")
				require.NotContains(t, context.Cause(term.Context()).Error(), "not renewed", "its end has another cause")
				t.Logf("the leader stopped after %v", time.Since(began))
				if name == "stopped" { // before the agent has ended
					second := receive(t, next.Terms, "the successor's term")
					t.Logf("the next one led after %v", time.Since(began))
					require.Greater(t, second.Token(), term.Token())
				}
				require.NoError(t, receive(t, ended, "the end of the agent"))
				require.False(t, leader.IsLeader())
				require.NoError(t, srv.Client().Start(soon(t)))
				if name == "killed" {
					receive(t, next.Terms, "the successor's term")
				}
			})
		}
	}
}

// The only server is killed and started again: the candidates connect again, and one leads.
func TestServerRestarts(t *testing.T) {
	for _, ttl := range []time.Duration{short, long} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{})
			election := newElection()
			st := open(t, consul.Config{Addresses: srv.Addrs(), TTL: ttl})
			leader := contend(t, st, election, "leader")
			term := receive(t, leader.Terms, "the first term")
			require.NoError(t, srv.Member(0).Kill())
			receive(t, term.Context().Done(), "the end of the term")
			require.NoError(t, srv.Member(0).Start(soon(t)))
			again := receive(t, leader.Terms, "the next term")
			require.Greater(t, again.Token(), term.Token())
		})
	}
}

// The configuration has several agents: if one is gone, or does not answer, the store uses the next one. The session
// belongs to the cluster, and goes on.
func TestNextAgent(t *testing.T) {
	const ttl = 20 * time.Second
	for name, fault := range map[string]func(m *testserver.Member) error{
		"killed": (*testserver.Member).Kill,
		"paused": (*testserver.Member).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
			first := srv.Client()
			defer func() { _ = first.Resume() }()
			st, err := store.Open(soon(t), "consul://"+strings.Join([]string{first.Addr(), srv.Addrs()[0]}, ",")+"/?ttl="+ttl.String(), nil)
			require.NoError(t, err)
			defer st.Close()
			b := castFirst(t, st, newElection(), "own")
			before := b.Lease().Last().Sent
			require.NoError(t, fault(first))
			eventually(t, func() bool { return b.Lease().Last().Sent.After(before) && b.Lease().Remaining() > 0 }, "it is confirmed by another agent")
			require.Less(t, b.Lease().Last().Sent.Sub(before), ttl*3/4, "the agent was left late")
			acknowledge(t, b, "own")
			require.NoError(t, b.Err())
		})
	}
}

package consul_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

var every = flag.Bool("every", false, "run the rows of docs/backends.md about the servers' election with the TTLs that it names")

// These tests restart, freeze, restore or configure agents, so they have servers of their own.

// The node of the only agent with candidates is deregistered: its sessions end. With a TTL below 10 s one leads again at once,
// since the session's service makes the agent register its node. Otherwise the agent does that about once a minute.
func TestNodeIsDeregistered(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
	election := newElection()
	run := contend(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, TTL: checked}), election, "own")
	term := receive(t, run.Terms, "the first term")
	for range 2 {
		meter, began := stall.Watch(t), time.Now()
		deregister(t, srv, nodeOf(t, srv, election))
		receive(t, term.Context().Done(), "its end")
		term = receive(t, run.Terms, "the next term")
		t.Logf("a leader after %v", time.Since(began))
		require.Less(t, time.Since(began), 15*time.Second+meter.Stalled(), "it waited for the agent; %v", meter)
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
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
	agent := srv.Client()
	runs := map[time.Duration]*storetest.Contender{}
	terms := map[time.Duration]*leadership.Term{}
	var node string
	for _, ttl := range []time.Duration{checked, long} {
		election := newElection()
		runs[ttl] = contend(t, open(t, consul.Config{Addresses: []string{agent.Addr()}, TTL: ttl}), election, "own")
		terms[ttl] = receive(t, runs[ttl].Terms, "the first term")
		node = nodeOf(t, srv, election)
	}
	require.NoError(t, agent.Kill())
	require.NoError(t, agent.RemoveData())
	require.NoError(t, agent.Start(soon(t)))
	for _, term := range terms {
		receive(t, term.Context().Done(), "its end")
	}
	receive(t, runs[long].Terms, "the next term without a check")
	eventually(t, func() bool {
		return slices.ContainsFunc(runs[checked].Errors(), func(err error) bool { return strings.Contains(err.Error(), "Missing check") })
	}, "the cause")
	deregister(t, srv, node)
	receive(t, runs[checked].Terms, "the next term with a check")
}

// A client agent that is stopped leaves its cluster, and the sessions of its node end; with one that is killed they do
// not. The holder stops at once in both cases, and stands again when the agent is back.
func TestAgentGoes(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
	for _, stopped := range []bool{true, false} {
		type pair struct {
			leader, next *storetest.Contender
			term         *leadership.Term
		}
		var pairs []pair
		for _, ttl := range []time.Duration{checked, long} {
			election := newElection()
			leader := contend(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, TTL: ttl}), election, "leader")
			term := receive(t, leader.Terms, "the first term")
			next := contend(t, open(t, consul.Config{Addresses: srv.Addrs()[:1], TTL: ttl}), election, "next")
			eventually(t, func() bool { return len(ballotKeys(t, operator(t, srv), election)) == 2 }, "both stand")
			pairs = append(pairs, pair{leader, next, term})
		}
		end := (*testserver.Member).Kill
		if stopped {
			end = (*testserver.Member).Stop
		}
		ended := make(chan error, 1)
		go func() { ended <- end(srv.Client()) }()
		for _, p := range pairs {
			receive(t, p.term.Context().Done(), "the end of the term")
			require.NotContains(t, context.Cause(p.term.Context()).Error(), "not renewed", "its end has another cause")
			if stopped { // before the agent has ended
				require.Greater(t, receive(t, p.next.Terms, "the successor's term").Token(), p.term.Token())
			}
		}
		require.NoError(t, receive(t, ended, "the end of the agent"))
		require.NoError(t, srv.Client().Start(soon(t)))
		for _, p := range pairs {
			require.False(t, p.leader.IsLeader())
			if !stopped {
				receive(t, p.next.Terms, "the successor's term")
			}
			p.next.End()
			receive(t, p.leader.Terms, "the leader's next term")
			p.leader.End()
		}
	}
}

// The only server is killed and started again: the candidates connect again, and one leads.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	runs := map[*storetest.Contender]*leadership.Term{}
	for _, ttl := range []time.Duration{checked, long} {
		run := contend(t, open(t, consul.Config{Addresses: srv.Addrs(), TTL: ttl}), newElection(), "leader")
		runs[run] = receive(t, run.Terms, "the first term")
	}
	require.NoError(t, srv.Member(0).Kill())
	for _, term := range runs {
		receive(t, term.Context().Done(), "the end of the term")
	}
	require.NoError(t, srv.Member(0).Start(soon(t)))
	for run, term := range runs {
		require.Greater(t, receive(t, run.Terms, "the next term").Token(), term.Token())
	}
}

// The configuration has several agents: if one is gone, or does not answer, the store uses the next one. The session
// belongs to the cluster, and goes on.
func TestNextAgent(t *testing.T) {
	const ttl = 20 * time.Second
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
	first := srv.Client()
	defer func() { _ = first.Resume() }()
	for name, fault := range map[string]func() error{
		"killed": first.Kill,
		"paused": first.Pause,
	} {
		meter := stall.Watch(t)
		st := open(t, consul.Config{Addresses: []string{first.Addr(), srv.Addrs()[0]}, TTL: ttl})
		b := castFirst(t, st, newElection(), "own")
		before := b.Lease().Last().Sent
		require.NoError(t, fault(), name)
		eventually(t, func() bool { return b.Lease().Last().Sent.After(before) && b.Lease().Remaining() > 0 }, "it is confirmed by another agent")
		require.Less(t, b.Lease().Last().Sent.Sub(before), ttl*3/4+meter.Stalled(), "the agent was left late; %v", meter)
		acknowledge(t, b, "own")
		require.NoError(t, b.Err())
		require.NoError(t, st.Close())
		if name == "killed" {
			require.NoError(t, first.Start(soon(t)))
		} else {
			require.NoError(t, first.Resume())
		}
	}
}

// The agent is one of three servers, and falls silent. The others' autopilot removes it, and the sessions of its node
// end long before their TTL. If autopilot keeps dead servers, the sessions go on.
func TestDeadServerIsRemoved(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	for name, c := range map[string]struct {
		extra string
		early bool // the session ends early; otherwise the lease ends first
	}{
		"removed": {early: true},
		"kept":    {extra: "autopilot { cleanup_dead_servers = false }"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{Members: 3, Extra: c.extra})
			leader, err := srv.Leader()
			require.NoError(t, err)
			silent, other := (leader+1)%3, (leader+2)%3
			at := func(i int) *consul.Store {
				return open(t, consul.Config{Addresses: []string{srv.Addrs()[i]}, TTL: ttl})
			}
			election := newElection()
			first := castFirst(t, at(silent), election, "first")
			next := cast(t, at(other), election, "next")
			meter, began := stall.Watch(t), time.Now()
			require.NoError(t, srv.Member(silent).Pause())
			defer func() { _ = srv.Member(silent).Resume() }() // before the stores are closed
			if !c.early {
				eventually(t, func() bool { return first.Lease().Remaining() == 0 }, "the lease has ended")
				waiting(t, next)
				return
			}
			require.NoError(t, next.Wait(soon(t)))
			took := time.Since(began)
			t.Logf("the successor led after %v, when the lease had %v left", took, first.Lease().Remaining())
			// The last renewal was sent up to TTL/4 before, and a session lives for two TTLs.
			require.Less(t, took, ttl*7/4+meter.Stalled(), "%v", meter)
		})
	}
}

// The servers' leader dies. A term survives the time without one if that is shorter than 5/12 of the TTL: a lease is
// two thirds of the TTL, and the last renewal is up to a quarter of it old. See docs/backends.md, whose rows -every runs.
// Without the flag the servers elect as fast as they can, and a machine that stands still for seconds costs no lease.
func TestServersElectALeader(t *testing.T) {
	t.Parallel()
	rows := map[int]time.Duration{1: long}
	if *every {
		rows = map[int]time.Duration{1: 15 * time.Second, 5: time.Minute}
	}
	for multiplier, ttl := range rows {
		t.Run(fmt.Sprintf("raft_multiplier %d, TTL %v", multiplier, ttl), func(t *testing.T) { electALeader(t, multiplier, ttl) })
	}
}

func electALeader(t *testing.T, multiplier int, ttl time.Duration) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{
		Members: 3, Extra: fmt.Sprintf("performance { raft_multiplier = %d }", multiplier),
	})
	leader, err := srv.Leader()
	require.NoError(t, err)
	st := open(t, consul.Config{Addresses: []string{srv.Addrs()[(leader+1)%3]}, TTL: ttl})
	election := newElection()
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	span, holds := b.Lease().Span()
	require.True(t, holds)
	killed := time.Now()
	require.NoError(t, srv.Member(leader).Kill())
	again, err := storetest.Leader(soon(t), st, election, nil) // a consistent read
	require.NoError(t, err)
	require.Equal(t, "own", again.Value)
	t.Logf("no leader among the servers for %v; the lease has %v left", time.Since(killed), b.Lease().Remaining())
	storetest.Renewed(t, b)
	require.True(t, b.Lease().Holds(span))
	require.NoError(t, b.Err())
}

// The server is away for longer than three TTLs. When it returns it counts the time of the old session anew, whose ballot
// would block all for two TTLs. The store destroys it.
func TestServerIsAwayForThreeTTLs(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	st := open(t, consul.Config{Addresses: srv.Addrs(), TTL: least, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	run := contend(t, st, newElection(), "own")
	term := receive(t, run.Terms, "the first term")
	require.NoError(t, srv.Member(0).Kill())
	receive(t, term.Context().Done(), "its end")
	<-within(t, 3*least+3*time.Second).Done()
	require.NoError(t, srv.Member(0).Start(soon(t)))
	meter, returned := stall.Watch(t), time.Now()
	receive(t, run.Terms, "the next term")
	took := time.Since(returned)
	t.Logf("a leader %v after the return; errors: %v", took, run.Errors())
	require.Less(t, took, least+5*time.Second+meter.Stalled(), "without it two TTLs, less the start of the server; %v", meter)
}

// While the servers are away, and for some time afterwards, a client agent denies everything to a token that it does
// not know yet. The store goes on by itself when that ends.
func TestServersAreAway(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{ACL: true, Client: true})
	admin, err := api.NewClient(&api.Config{Address: srv.Addrs()[0], Token: srv.ManagementToken()})
	require.NoError(t, err)
	policy, _, err := admin.ACL().PolicyCreate(&api.ACLPolicy{Name: "candidate", Rules: mayWrite + maySession + mayRegister}, nil)
	require.NoError(t, err)
	token, _, err := admin.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
	require.NoError(t, err)
	require.NoError(t, srv.Member(0).Kill())

	st := open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, Token: token.SecretID, TTL: checked})
	election := newElection()
	var away, denials int
	try := func(ctx context.Context) (store.Ballot, error) {
		b, err := st.Cast(ctx, election, "own")
		if err != nil {
			t.Log(err)
			require.NotContains(t, err.Error(), token.SecretID)
		}
		switch {
		case err == nil:
		case errors.Is(err, store.ErrDenied):
			denials++
		default:
			require.ErrorIs(t, err, store.ErrUnavailable)
			away++
		}
		return b, err
	}
	for away == 0 {
		_, err := try(soon(t))
		require.Error(t, err)
	}
	run := contend(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, Token: token.SecretID, TTL: checked}), newElection(), "run")
	eventually(t, func() bool { return len(run.Errors()) > 0 }, "Run tells of it")
	require.NoError(t, srv.Member(0).Start(soon(t)))
	began := time.Now()
	var b store.Ballot
	eventually(t, func() bool { // beyond the limit of an agent's caches
		b, err = try(soon(t))
		return err == nil
	}, "a ballot")
	t.Logf("a ballot %v after the server had started; %d errors that named the outage, %d denials", time.Since(began), away, denials)
	require.NoError(t, b.Wait(soon(t)))
	acknowledge(t, b, "own")
	receive(t, run.Terms, "the term of Run")
}

// `consul snapshot restore` brings back a withdrawn ballot while the store goes on renewing the session. No ballot of the
// store accounts for it: the session ends, and takes it along with its acknowledgement, whether or not the store stands in
// that election.
func TestRestoredBallotIsRemoved(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	client := operator(t, srv)
	type world struct {
		st             *consul.Store
		election       string
		first, another store.Ballot
	}
	worlds := make([]world, 2)
	for i := range worlds {
		w := world{st: open(t, consul.Config{Addresses: srv.Addrs()}), election: newElection()}
		w.first = castFirst(t, w.st, w.election, "withdrawn")
		acknowledge(t, w.first, "withdrawn")
		w.another = castFirst(t, w.st, newElection(), "in another election")
		worlds[i] = w
	}
	snapshot, _, err := client.Snapshot().Save(nil)
	require.NoError(t, err)
	defer snapshot.Close()
	other := open(t, consul.Config{Addresses: srv.Addrs()})
	for i, w := range worlds {
		require.NoError(t, w.first.Withdraw(soon(t)))
		if i == 0 { // the store stands again
			contend(t, w.st, w.election, "again")
		}
		contend(t, other, w.election, "other")
		eventually(t, func() bool { return len(values(t, other, w.election)) > 0 }, "it stands")
	}
	meter, began := stall.Watch(t), time.Now()
	require.NoError(t, client.Snapshot().Restore(nil, snapshot))
	for _, w := range worlds {
		lost(t, w.another)
		_ = w.another.Withdraw(soon(t)) // the end of the session waits for its work; it takes the ballot along
	}
	for _, w := range worlds {
		eventually(t, func() bool {
			list := values(t, other, w.election)
			leader, err := storetest.Leader(soon(t), other, w.election, nil)
			require.NoError(t, err)
			return len(list) > 0 && list[0] != "withdrawn" && leader.Value == list[0]
		}, "another leads")
	}
	t.Logf("others led %v after the restore began", time.Since(began))
	require.Less(t, time.Since(began), long/4+meter.Stalled(), "it waited for the next renewal; %v", meter)
}

// The servers are restored from a snapshot that does not contain the ballots. Tokens do not go back, since the servers
// go on counting, and nothing hangs.
func TestSnapshotIsRestored(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	client := operator(t, srv)
	snapshot, _, err := client.Snapshot().Save(nil)
	require.NoError(t, err)
	defer snapshot.Close()
	for _, ttl := range []time.Duration{long, checked} {
		election := newElection()
		a := contend(t, open(t, consul.Config{Addresses: srv.Addrs(), TTL: ttl}), election, "a")
		term := receive(t, a.Terms, "the first term")
		st := open(t, consul.Config{Addresses: srv.Addrs(), TTL: ttl})
		b := contend(t, st, election, "b")
		eventually(t, func() bool { return len(ballotKeys(t, client, election)) == 2 }, "both stand")
		told := make(chan store.Leader, 1)
		known, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		go func() {
			l, _ := storetest.Leader(soon(t), st, election, &known)
			told <- l
		}()
		if ttl == long {
			require.NoError(t, client.Snapshot().Restore(nil, snapshot))
		} else {
			_, err := client.KV().DeleteTree("", nil)
			require.NoError(t, err)
		}
		receive(t, term.Context().Done(), "the end of the first term")
		var next uint64
		select {
		case term := <-a.Terms:
			next = term.Token()
		case term := <-b.Terms:
			next = term.Token()
		case <-soon(t).Done():
			require.FailNow(t, "there is no leader after the restore")
		}
		require.Greater(t, next, term.Token())
		receive(t, told, "the follower is told")
	}
}

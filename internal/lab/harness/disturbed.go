package harness

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

var whole = flag.Bool("whole", false, "on clusters, run the whole suite instead of the cases that a cluster can change")

// onClusters are the cases that a cluster can change: those whose outcome depends on which member answers, or on what is
// left of a write when the cluster's leader has died. All others are shown by a single server, which runs them all.
var onClusters = []string{
	// G1: a new leader of the cluster ends no session early, and none late enough for two leaders.
	"cut-off-leader-stops-first", "renewal-keeps-others-out", "cast-at-the-same-moment",
	// G2: tokens are numbers of the cluster's log.
	"tokens-grow-over-crashes",
	// G3: sessions are expired by the cluster's leader, and another one has to do it as well.
	"crash-is-taken-over", "outage-longer-than-the-session",
	// G3: the write whose reply was lost is looked for at another member.
	"lost-reply-makes-one-ballot", "repeated-withdrawal-spares-the-next-ballot",
	// G4: the order is that of the cluster's log, and each waits at a member of its own.
	"leads-in-the-order-of-ballots",
	// G5: an acknowledgement is made once, also if the cluster's leader has just died.
	"lost-reply-to-an-acknowledgement", "late-acknowledgement-changes-nothing",
	// G5: acknowledgements survive the member that took them. A member that is behind shows no earlier leader, and misses no
	// change after a reconnection.
	"followers-see-every-leader", "leader-never-goes-back", "changes-at-any-moment", "as-of-under-constant-change",
}

// togetherOnClusters is how many of them run at a time. With all of them, more stores stand when a leader dies than a busy
// machine can renew within the TTL: an agent of Consul that brings the services of some to a new leader takes no
// heartbeat of the others meanwhile.
const togetherOnClusters = 5

// Cluster is a service of several members.
type Cluster interface {
	Leader() (int, error)
	Member(i int) *testserver.Member
	Ready(ctx context.Context) error
}

// RunDisturbed runs the cases that a cluster can change, twice: while one leader of the cluster after the other is killed
// and started again, and while one member after the other is restarted. The first one dies just before the cases begin.
//
// With -whole it runs the suite, for hours of make long: some cases at a time, fewer if each change of the leader costs
// little.
func RunDisturbed(t *testing.T, c Cluster, h conformance.Harness, atATime int) {
	limit := 15 * time.Minute // less than the time limit of make test
	if *whole {
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	d := disturbed{c, h, ctx}
	if *whole {
		for i, g := range groups(atATime) {
			t.Run(g.name(), func(t *testing.T) {
				switch {
				case slices.Contains(counting, g[0].Name):
					d.afterARestart(t, g, i/2%3)
				case i%2 == 0:
					d.withoutTheLeader(t, g)
				default:
					d.duringARestart(t, g, i/2%3)
				}
			})
		}
		return
	}
	cases := named(t, onClusters...)
	t.Run("the leader is killed", func(t *testing.T) {
		d.again(t, cases, func(int) (*testserver.Member, error) {
			leader, err := d.leader()
			if err != nil {
				return nil, err
			}
			return d.Member(leader), d.Member(leader).Kill()
		})
	})
	t.Run("a member is restarted", func(t *testing.T) {
		d.again(t, cases, func(i int) (*testserver.Member, error) {
			if _, err := d.leader(); err != nil {
				return nil, err
			}
			member := d.Member(i % 3)
			if err := member.Stop(); err != nil {
				t.Logf("a member was killed that did not stop: %v", err)
			}
			return member, nil
		})
	})
}

// disturbed is a cluster whose members are killed and restarted, and a store on it.
type disturbed struct {
	Cluster
	h   conformance.Harness
	ctx context.Context
}

// again runs the cases while one member after the other ends and is started again. The first ends before the cases
// begin, the second soon after that, when the cluster is whole and sessions stand, and then one in two TTLs. If it were
// more often, no session would expire: a new leader of the cluster counts their TTL anew.
func (d disturbed) again(t *testing.T, cases group, end func(i int) (*testserver.Member, error)) {
	member, err := end(0)
	require.NoError(t, err)
	over, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for i, pause := 1, d.h.TTL/3; ; i, pause = i+1, 2*d.h.TTL {
			next := time.After(pause)
			if err := member.Start(d.ctx); err != nil {
				failed <- err
				return
			}
			select {
			case <-next:
			case <-over:
				t.Logf("%d members have ended", i)
				failed <- nil
				return
			}
			if member, err = end(i); err != nil {
				failed <- err
				return
			}
		}
	}()
	cases.run(t, d.h, togetherOnClusters)
	close(over)
	require.NoError(t, <-failed)
}

func (d disturbed) withoutTheLeader(t *testing.T, g group) {
	leader, err := d.leader()
	require.NoError(t, err)
	require.NoError(t, d.Member(leader).Kill())
	g.run(t, d.h, len(g))
	require.NoError(t, d.Member(leader).Start(d.ctx))
}

func (d disturbed) duringARestart(t *testing.T, g group, member int) {
	started := d.restart(t, member)
	g.run(t, d.h, len(g))
	require.NoError(t, <-started)
}

// afterARestart is for cases that count goroutines: new connections have some.
func (d disturbed) afterARestart(t *testing.T, g group, member int) {
	require.NoError(t, <-d.restart(t, member))
	_, err := d.leader()
	require.NoError(t, err)
	g.run(t, d.h, len(g))
}

// restart begins to restart a member, and sends how that ended.
func (d disturbed) restart(t *testing.T, member int) <-chan error {
	_, err := d.leader()
	require.NoError(t, err)
	if err := d.Member(member).Stop(); err != nil {
		t.Logf("a member was killed that did not stop: %v", err)
	}
	started := make(chan error, 1)
	go func() { started <- d.Member(member).Start(d.ctx) }()
	return started
}

// leader waits until the cluster is whole and agrees on its leader, which may change once more when a member has come
// back.
func (d disturbed) leader() (int, error) {
	for {
		if err := d.Ready(d.ctx); err != nil {
			return 0, err
		}
		if leader, err := d.Leader(); err == nil {
			return leader, nil
		}
	}
}

// groups returns all cases but the outage in groups of up to size. Those that count are alone. A store whose own
// line is cut notices nothing of the cluster, so single servers show that case as well.
func groups(size int) (list []group) {
	var several group
	for _, c := range conformance.Cases() {
		switch {
		case c.Name == outage:
		case slices.Contains(counting, c.Name):
			list = append(list, group{c})
		default:
			several = append(several, c)
		}
	}
	for cases := range slices.Chunk(several, size) {
		list = append(list, cases)
	}
	return list
}

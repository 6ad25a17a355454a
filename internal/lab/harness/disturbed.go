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
	// G5: an acknowledgement survives the member that took it, and is made once.
	"lost-reply-to-an-acknowledgement", "late-acknowledgement-changes-nothing",
	// G5: a member that is behind shows no earlier leader, and misses no change after a reconnection.
	"followers-see-every-leader", "leader-never-goes-back", "changes-at-any-moment", "as-of-under-constant-change",
}

// Cluster is a service of several members.
type Cluster interface {
	Leader() (int, error)
	Member(i int) *testserver.Member
	Ready(ctx context.Context) error
}

// RunDisturbed runs the cases that a cluster can change, twice: they begin just when the cluster's leader has been killed,
// and run without that member; and they begin just when a member is being restarted.
//
// With -whole it runs the suite, for hours of make long: some cases at a time, fewer if each change of the leader costs
// little.
func RunDisturbed(t *testing.T, c Cluster, h conformance.Harness, atATime int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
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
	t.Run("the leader is killed", func(t *testing.T) { d.withoutTheLeader(t, cases) })
	t.Run("a member is restarted", func(t *testing.T) { d.duringARestart(t, cases, 0) })
}

// disturbed is a cluster whose members are killed and restarted, and a store on it.
type disturbed struct {
	Cluster
	h   conformance.Harness
	ctx context.Context
}

func (d disturbed) withoutTheLeader(t *testing.T, g group) {
	leader := d.leader(t)
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
	d.leader(t)
	g.run(t, d.h, len(g))
}

// restart begins to restart a member, and sends how that ended.
func (d disturbed) restart(t *testing.T, member int) <-chan error {
	d.leader(t)
	if err := d.Member(member).Stop(); err != nil {
		t.Logf("a member was killed that did not stop: %v", err)
	}
	started := make(chan error, 1)
	go func() { started <- d.Member(member).Start(d.ctx) }()
	return started
}

// leader waits until the cluster is whole and agrees on its leader, which may change once more when a member has come
// back.
func (d disturbed) leader(t *testing.T) int {
	t.Helper()
	for {
		require.NoError(t, d.Ready(d.ctx))
		if leader, err := d.Leader(); err == nil {
			return leader
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

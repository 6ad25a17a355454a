package bench

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// BenchmarkCampaign measures what it takes to enter an election on an open session: Store.Campaign behind a leader,
// until the ballot has been cast and waits. The floor is two requests one after the other, the creation of an
// ephemeral sequential node and a read. Apart from the times it reports how many round trips follow one another, and
// how many requests are sent; and, with the prefix "alone-", how long Candidate.Campaign takes to return as the
// leader where nobody else stands.
func BenchmarkCampaign(b *testing.B) {
	b.Run("zookeeper", func(b *testing.B) {
		server := startZooKeeper(b)
		behind := newBehind(b, server)
		floor := &series{measure: newEntry(b, server).measure}
		ours := &series{measure: behind.measure}
		alone := &series{measure: newAlone(b, server).measure}
		interleave(b, floor, ours, alone)
		reportRatio(b, floor, ours)
		b.ReportMetric(float64(quantile(behind.rounds, 0.5)), "round-trips")
		b.ReportMetric(float64(quantile(behind.requests, 0.5)), "requests")
		alone.report(b, "alone-", floor)
	})
}

// entry is the floor: a session and a directory.
type entry struct {
	wire *wire
	conn *zk.Conn
	dir  string
}

func newEntry(b *testing.B, server string) *entry {
	e := &entry{wire: &wire{}}
	e.conn = connect(b, server, e.wire)
	e.dir = makeDir(b, e.conn, "/floor")
	return e
}

func (e *entry) measure(b *testing.B) time.Duration {
	wires{e.wire}.settle(b)
	start := time.Now()
	path, err := e.conn.Create(e.dir+"/node", nil, zk.FlagEphemeralSequential, world)
	require.NoError(b, err)
	_, _, err = e.conn.Exists(path)
	took := time.Since(start)

	require.NoError(b, err)
	require.NoError(b, e.conn.Delete(path, -1))
	return took
}

// behind casts ballots in an election that has a leader, from another session.
type behind struct {
	wire             *wire
	store            store.Store
	election         string
	rounds, requests []int // that a ballot took
}

func newBehind(b *testing.B, server string) *behind {
	e := &behind{wire: &wire{}, election: "campaign/behind"}
	e.store = openStore(b, server, ttl, e.wire)
	leader := newContender(b, openStore(b, server, ttl, &wire{}), e.election, "a")
	leader.stand(b)
	leader.takeOver(b)
	return e
}

func (e *behind) measure(b *testing.B) time.Duration {
	wires{e.wire}.settle(b)
	e.wire.resetRounds()
	requests := e.wire.requests().sent()
	start := time.Now()
	ballot, err := e.store.Campaign(b.Context(), e.election, "b")
	took := time.Since(start)

	require.NoError(b, err)
	e.rounds = append(e.rounds, e.wire.rounds())
	e.requests = append(e.requests, e.wire.requests().sent()-requests)
	require.NoError(b, ballot.Withdraw(b.Context()))
	return took
}

// alone is the only candidate of an election.
type alone struct {
	wire *wire
	*contender
}

func newAlone(b *testing.B, server string) *alone {
	w := &wire{}
	return &alone{w, newContender(b, openStore(b, server, ttl, w), "campaign/alone", "a")}
}

func (c *alone) measure(b *testing.B) time.Duration {
	wires{c.wire}.settle(b)
	start := time.Now()
	c.stand(b)
	won, term := c.lead(b)

	require.NoError(b, term.Resign(b.Context()))
	return won.Sub(start)
}

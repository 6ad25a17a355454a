package bench

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// BenchmarkCast measures what it takes to enter an election on an open session: Store.Cast behind a leader,
// until the ballot has been cast and waits. The floor is the least that entering a queue takes: creating a key and
// reading its position, in one request or, on ZooKeeper, two. It also reports how many round trips follow one another
// and how many requests are sent. The metrics with the prefix "alone-" are the time that Candidate.Campaign takes to
// lead if no other candidate stands.
func BenchmarkCast(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		behind := newBehind(b, s)
		floor := &series{measure: newFloor(b, s).entry}
		ours := &series{measure: behind.measure}
		alone := &series{measure: newAlone(b, s).measure}
		interleave(b, floor, ours, alone)
		reportRatio(b, floor, ours)
		b.ReportMetric(float64(quantile(behind.rounds, 0.5)), "round-trips")
		b.ReportMetric(float64(quantile(behind.requests, 0.5)), "requests")
		alone.report(b, "alone-", floor)
	})
}

// behind casts ballots in an election that has a leader, from another session.
type behind struct {
	wire             *wire
	store            store.Store
	election         string
	rounds, requests []int // that a ballot took
}

func newBehind(b *testing.B, s *server) *behind {
	e := &behind{wire: s.newWire(), election: "cast/behind"}
	e.store = s.openStore(b, ttl, e.wire)
	leader := newContender(b, s.openStore(b, ttl, s.newWire()), e.election, "a")
	leader.stand(b)
	leader.takeOver(b)
	return e
}

func (e *behind) measure(b *testing.B) time.Duration {
	wires{e.wire}.awaitQuiet(b)
	e.wire.resetRounds()
	requests := e.wire.requests()
	start := time.Now()
	ballot, err := e.store.Cast(b.Context(), e.election, "b")
	took := time.Since(start)

	require.NoError(b, err)
	e.rounds = append(e.rounds, e.wire.rounds())
	wires{e.wire}.awaitQuiet(b) // until the requests in the background have been answered, too
	e.requests = append(e.requests, e.wire.requests()-requests)
	require.NoError(b, ballot.Withdraw(b.Context()))
	return took
}

// alone is the only candidate of an election.
type alone struct {
	wire *wire
	*contender
}

func newAlone(b *testing.B, s *server) *alone {
	w := s.newWire()
	return &alone{w, newContender(b, s.openStore(b, ttl, w), "cast/alone", "a")}
}

func (c *alone) measure(b *testing.B) time.Duration {
	wires{c.wire}.awaitQuiet(b)
	start := time.Now()
	c.stand(b)
	won, term := c.lead(b)

	require.NoError(b, term.Withdraw(b.Context()))
	return won.Sub(start)
}

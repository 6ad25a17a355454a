package postgres

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkHandOver measures from the leader's orderly end until the next candidate, in another process, knows that it
// leads. The floor is one commit that notifies, until another connection is told. A candidate that polls is measured at a
// random time of its interval.
func BenchmarkHandOver(b *testing.B) {
	onEachContender(b, func(b *testing.B, s *server, c *contender) {
		floor := &series{measure: newFloor(b, s).measure}
		g := newGroup(b, s, c, "handover", 2, 2, short)
		theirs := &series{measure: g.handOver}
		interleave(b, floor, theirs)
		floor.report(b, "floor-")
		theirs.report(b, "")
		b.ReportMetric(ratio(quantile(theirs.took, 0.5), quantile(floor.took, 0.5)), "ratio")
	})
}

// handOver measures a change of the leader.
func (g *group) handOver(b *testing.B) time.Duration {
	g.reenter(b)
	settle()
	if poll := g.contender.poll(g.ttl); poll > 0 {
		time.Sleep(rand.N(poll))
	}
	began, led := g.change(b)
	return led.Sub(began)
}

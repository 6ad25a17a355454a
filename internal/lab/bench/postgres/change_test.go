package postgres

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sizes are the numbers of candidates of one election, in at most 100 processes.
var sizes = []int{10, 100, 1000}

const maxProcesses = 100

// BenchmarkChange measures how many statements the server executes for one change of the leader, by the number of
// candidates, without those that would have been executed anyway. The candidate that stands again is not counted.
func BenchmarkChange(b *testing.B) {
	onEachContender(b, func(b *testing.B, s *server, c *contender) {
		for _, n := range sizes {
			b.Run(fmt.Sprint(n), func(b *testing.B) { measureChange(b, s, c, n) })
		}
	})
}

// awaitSteady waits until the rate of statements is steady: what is done once is over.
func awaitSteady(b *testing.B, s *server, c *contender) {
	last := math.Inf(1)
	for range 30 {
		before := s.statements(b, c.statements)
		time.Sleep(2 * time.Second) // what is measured: the statements in it
		done := s.statements(b, c.statements) - before
		if math.Abs(done-last) <= max(10, last/10) && !math.IsInf(last, 1) {
			return
		}
		last = done
	}
	b.Fatal("the rate of statements does not get steady")
}

func measureChange(b *testing.B, s *server, c *contender, n int) {
	const (
		changes = 5
		window  = 10 * time.Second
		after   = 500 * time.Millisecond // in which those follow that the change has caused
	)
	ttl := 5 * time.Minute // few renewals, which would hide the change
	if c.poll(ttl) > 0 {   // the hand-over depends on it
		ttl = short
	}
	g := newGroup(b, s, c, fmt.Sprint("change", n), n, min(n, maxProcesses), ttl)
	awaitSteady(b, s, c)
	before := s.statements(b, c.statements)
	time.Sleep(window)
	perSecond := (s.statements(b, c.statements) - before) / window.Seconds()

	var statements float64
	var took []time.Duration
	for b.Loop() {
		for range changes {
			g.reenter(b)
			time.Sleep(time.Second)
			before, start := s.statements(b, c.statements), time.Now()
			began, led := g.change(b)
			time.Sleep(after)
			statements += s.statements(b, c.statements) - before - perSecond*time.Since(start).Seconds()
			took = append(took, led.Sub(began))
		}
	}
	require.NotEmpty(b, took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(statements/float64(len(took)), "statements/change")
	b.ReportMetric(perSecond, "statements/s")
	b.ReportMetric(milliseconds(quantile(took, 0.5)), "p50-ms")
}

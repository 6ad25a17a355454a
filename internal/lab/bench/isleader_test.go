package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// BenchmarkIsLeader asks a candidate that leads.
func BenchmarkIsLeader(b *testing.B) {
	onEachStore(b, func(b *testing.B, c *leadership.Candidate) {
		b.ReportAllocs()
		for b.Loop() {
			if !c.IsLeader() {
				b.Fatal("lost the leadership")
			}
		}
	})
}

// BenchmarkTimeNow reads the clock once. Comparing a deadline with the clock takes at least that.
func BenchmarkTimeNow(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		time.Now()
	}
}

// BenchmarkIsLeaderRatio measures both in turn, a thousand at a time, and reports the ratio of their medians.
func BenchmarkIsLeaderRatio(b *testing.B) {
	const batch = 1000
	onEachStore(b, func(b *testing.B, c *leadership.Candidate) {
		var clock, ours []time.Duration
		var now time.Time
		for b.Loop() {
			start := time.Now()
			for range batch {
				now = time.Now()
			}
			between := time.Now()
			for range batch {
				if !c.IsLeader() {
					b.Fatal("lost the leadership")
				}
			}
			ours = append(ours, time.Since(between))
			clock = append(clock, between.Sub(start))
		}
		runtime.KeepAlive(now)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(quantile(clock, 0.5))/batch, "time.Now-ns")
		b.ReportMetric(float64(quantile(ours, 0.5))/batch, "IsLeader-ns")
		b.ReportMetric(ratio(quantile(ours, 0.5), quantile(clock, 0.5)), "ratio")
	})
}

// onEachStore measures with a candidate that leads on each store.
func onEachStore(b *testing.B, measure func(*testing.B, *leadership.Candidate)) {
	lead := func(b *testing.B, st store.Store) *leadership.Candidate {
		c := newContender(b, st, "isleader", "a")
		c.stand(b)
		c.takeOver(b)
		return c.Candidate
	}
	b.Run("memory", func(b *testing.B) {
		st, err := memory.Open(memory.NewService(), nil)
		require.NoError(b, err)
		b.Cleanup(func() { _ = st.Close() })
		measure(b, lead(b, st))
	})
	onEachService(b, func(b *testing.B, s *server) { measure(b, lead(b, s.openStore(b, ttl, s.newWire()))) })
}

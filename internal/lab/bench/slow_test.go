package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
)

// BenchmarkSlowHandOver measures the hand-over over links with a round trip of 0.3 s, in round trips: the median, and what
// nine of ten do not exceed. The least is one: half a trip for the resignation, and half for the news of it. What a
// candidate reads anew meanwhile must not hold up the news. Each hand-over begins at another moment of that.
func BenchmarkSlowHandOver(b *testing.B) {
	const roundTrip = 300 * time.Millisecond
	onEachService(b, func(b *testing.B, s *server) {
		for _, ttl := range []time.Duration{3 * time.Second, 10 * time.Second} {
			b.Run(fmt.Sprint("ttl=", ttl), func(b *testing.B) {
				slow := s.newWires(2)
				for _, w := range slow {
					link := &storetest.Link{}
					link.RoundTrip(roundTrip)
					w.over = link.Dial
				}
				q := s.newQueueOver(b, slow, "slow", 2, ttl, "v")
				ours := &series{measure: func(b *testing.B) time.Duration {
					q.reenter(b)
					time.Sleep(6 * roundTrip) // until it watches
					began, led := q.change(b)
					return led.Sub(began)
				}}
				interleave(b, ours)
				b.ReportMetric(ratio(ours.median(), roundTrip), "trips")
				b.ReportMetric(ratio(quantile(ours.took, 0.9), roundTrip), "p90-trips")
			})
		}
	})
}

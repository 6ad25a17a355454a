package bench

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// series is the measured times of one thing.
type series struct {
	measure func(*testing.B) time.Duration
	took    []time.Duration
}

// interleave measures all of them once per loop, in random order, so that the effects of one on the server and the
// machine are the same for all others.
func interleave(b *testing.B, all ...*series) {
	for b.Loop() {
		for _, i := range rand.Perm(len(all)) {
			all[i].took = append(all[i].took, all[i].measure(b))
		}
	}
	b.ReportMetric(0, "ns/op") // of one loop: it has no meaning
}

func (s *series) median() time.Duration { return quantile(s.took, 0.5) }

// report reports the median and its ratio to the floor's, with a prefix.
func (s *series) report(b *testing.B, prefix string, floor *series) {
	b.ReportMetric(microseconds(s.median()), prefix+"µs")
	b.ReportMetric(ratio(s.median(), floor.median()), prefix+"ratio")
}

// reportRatio reports the medians of the floor and of the library, and their ratio.
func reportRatio(b *testing.B, floor, ours *series) {
	b.ReportMetric(microseconds(floor.median()), "floor-µs")
	b.ReportMetric(microseconds(ours.median()), "ours-µs")
	b.ReportMetric(ratio(ours.median(), floor.median()), "ratio")
}

// quantile returns the value which the share q of all values does not exceed.
func quantile[T cmp.Ordered](all []T, q float64) T {
	return slices.Sorted(slices.Values(all))[int(q*float64(len(all)-1))]
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func ratio[T time.Duration | float64](a, b T) float64 { return float64(a) / float64(b) }

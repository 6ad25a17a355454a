package postgres

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

// rounds is how often a benchmark measures in each of its loops, since -benchtime counts the loops of slow ones as one.
const rounds = 20

// interleave measures all of them in turn, in random order, so that the effects of one on the server and the machine are
// the same for all others.
func interleave(b *testing.B, all ...*series) {
	for b.Loop() {
		for range rounds {
			for _, i := range rand.Perm(len(all)) {
				all[i].took = append(all[i].took, all[i].measure(b))
			}
		}
	}
	b.ReportMetric(0, "ns/op") // of one loop: it has no meaning
}

// report reports the median and the slowest but one, in milliseconds.
func (s *series) report(b *testing.B, prefix string) {
	b.ReportMetric(milliseconds(quantile(s.took, 0.5)), prefix+"p50-ms")
	b.ReportMetric(milliseconds(lastButOne(s.took)), prefix+"last-but-one-ms")
}

func quantile[T cmp.Ordered](all []T, q float64) T {
	return slices.Sorted(slices.Values(all))[int(q*float64(len(all)-1))]
}

// lastButOne returns the largest value but one.
func lastButOne[T cmp.Ordered](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, len(sorted)-2)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

package bench

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// BenchmarkHerd changes the leader of an election in which the given number of candidates stand, some or all of them
// sharing a session, and counts on the wire what all of them send. A change is: the leader resigns, the next one leads
// and acknowledges. The one that resigned then stands again at the back, which is counted apart. The metrics are
//
//	requests/change     what was sent in a change
//	requests/entry      what was sent between two changes
//	notifications/op    watches that fired in a change and an entry
//	upkeep/s            pings, renewals and looks of all sessions together
//	mean-µs, p50-µs     time per change
//
// Looks are told from other reads by setting no watch. (Two that wait for one node on one session share a watch, and
// the second reads without one; here neighbours in the queue are never of one session.)
func BenchmarkHerd(b *testing.B) {
	b.Run("zookeeper", func(b *testing.B) {
		server := startZooKeeper(b)
		for _, n := range []struct{ candidates, sessions int }{
			{10, 5}, {100, 5}, {500, 5}, {10, 10}, {100, 100},
		} {
			b.Run(fmt.Sprintf("candidates=%d/sessions=%d", n.candidates, n.sessions), func(b *testing.B) {
				benchmarkHerd(b, newHerd(b, server, n.candidates, n.sessions))
			})
		}
	})
}

func benchmarkHerd(b *testing.B, h *herd) {
	var took []time.Duration
	var changes, entries int
	upkeep, events, began := h.upkeep(), h.events(), time.Now()
	before := h.work()
	for b.Loop() {
		took = append(took, h.change(b))
		changed := h.work()
		h.reenter(b)
		entered := h.work()
		changes, entries = changes+changed-before, entries+entered-changed
		before = entered
	}
	ops := float64(len(took))
	h.wires.settle(b)
	entries += h.work() - before // what came late
	var total time.Duration
	for _, t := range took {
		total += t
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(changes)/ops, "requests/change")
	b.ReportMetric(float64(entries)/ops, "requests/entry")
	b.ReportMetric(float64(h.events()-events)/ops, "notifications/op")
	b.ReportMetric(float64(h.upkeep()-upkeep)/time.Since(began).Seconds(), "upkeep/s")
	b.ReportMetric(microseconds(total)/ops, "mean-µs")
	b.ReportMetric(microseconds(quantile(took, 0.5)), "p50-µs")
}

// herd is an election with many candidates.
type herd struct {
	wires wires
	queue []*contender // the leader first
}

func newHerd(b *testing.B, server string, candidates, sessions int) *herd {
	b.Helper()
	h := &herd{wires: newWires(sessions)}
	var stores []store.Store
	for _, w := range h.wires {
		stores = append(stores, openStore(b, server, ttl, w))
	}
	election := fmt.Sprintf("herd/%d/%d", candidates, sessions)
	for i := range candidates {
		c := newContender(b, stores[i%sessions], election, strconv.Itoa(i))
		c.stand(b)
		h.queue = append(h.queue, c)
	}
	h.queue[0].takeOver(b)
	return h
}

// work returns how many requests have been sent but for upkeep.
func (h *herd) work() int {
	return h.wires.sum(func(w *wire) int { t := w.requests(); return t.sent() - t.looks() })
}

func (h *herd) upkeep() int {
	return h.wires.sum(func(w *wire) int { t := w.requests(); return t.all() - t.sent() + t.looks() })
}

func (h *herd) events() int { return h.wires.sum((*wire).notified) }

// change lets the leader resign and the next in line lead and acknowledge, and returns how long that took.
func (h *herd) change(b *testing.B) time.Duration {
	start := time.Now()
	require.NoError(b, h.queue[0].Resign(b.Context()))
	h.queue[1].takeOver(b)
	return time.Since(start)
}

// reenter lets the candidate that resigned stand again.
func (h *herd) reenter(b *testing.B) {
	resigned := h.queue[0]
	h.queue = append(h.queue[1:], resigned)
	resigned.stand(b)
}

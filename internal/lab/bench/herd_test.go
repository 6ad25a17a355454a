package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// herdTTL is so long that nothing is renewed while a herd is measured.
const herdTTL = time.Hour

// BenchmarkHerd changes the leader of an election with many candidates, which share sessions, and counts on the wire what
// all of them send. In a change the leader resigns, and the next one leads and acknowledges. Then the one that resigned
// stands again, at the back of the queue: an entry, which is counted separately. The metrics are medians, except for the
// last, which is a mean and includes later requests in the background:
//
//	requests/change        requests of a change, until the connections are quiet
//	requests/entry         requests of an entry, until the connections are quiet
//	notifications/change   notifications of a change, to all sessions together
//	notifications/entry    notifications of an entry
//	bytes/change           bytes of a change, in both directions
//	bytes/entry            bytes of an entry
//	p50-µs                 from the call of Resign until the next one has acknowledged
//	all-requests/op        all requests of the benchmark, divided by the number of changes
func BenchmarkHerd(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		for _, n := range []struct{ candidates, sessions, value int }{
			{10, 5, 1}, {100, 5, 1}, {500, 5, 1}, {10, 10, 1}, {100, 100, 1}, {10, 5, 16 << 10}, {100, 5, 16 << 10},
		} {
			name := fmt.Sprintf("candidates=%d/sessions=%d", n.candidates, n.sessions)
			if n.value > 1 {
				name += fmt.Sprintf("/value=%d", n.value)
			}
			b.Run(name, func(b *testing.B) {
				measureHerd(b, newQueue(b, s, "herd/"+name, n.candidates, n.sessions, herdTTL, strings.Repeat("v", n.value)))
			})
		}
	})
}

func measureHerd(b *testing.B, q *queue) {
	var took []time.Duration
	var changes, entries counts
	q.wires.awaitQuiet(b)
	before := q.wires.sum((*wire).requests)
	for b.Loop() {
		changes.add(b, q, func() {
			began, _ := q.change(b)
			took = append(took, time.Since(began))
		})
		entries.add(b, q, func() { q.reenter(b) })
	}
	time.Sleep(time.Second) // requests in the background have no end that could be waited for
	all := q.wires.sum((*wire).requests) - before
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(quantile(changes.requests, 0.5)), "requests/change")
	b.ReportMetric(float64(quantile(entries.requests, 0.5)), "requests/entry")
	b.ReportMetric(float64(quantile(changes.notifications, 0.5)), "notifications/change")
	b.ReportMetric(float64(quantile(entries.notifications, 0.5)), "notifications/entry")
	b.ReportMetric(float64(quantile(changes.bytes, 0.5)), "bytes/change")
	b.ReportMetric(float64(quantile(entries.bytes, 0.5)), "bytes/entry")
	b.ReportMetric(microseconds(quantile(took, 0.5)), "p50-µs")
	b.ReportMetric(float64(all)/float64(len(took)), "all-requests/op")
}

// counts is what passed each time that something was done.
type counts struct{ requests, notifications, bytes []int }

func (c *counts) add(b *testing.B, q *queue, do func()) {
	requests, notifications := q.wires.sum((*wire).requests), q.wires.sum((*wire).notifications)
	bytes := q.wires.sum((*wire).bytes)
	do()
	q.wires.awaitQuiet(b)
	c.requests = append(c.requests, q.wires.sum((*wire).requests)-requests)
	c.notifications = append(c.notifications, q.wires.sum((*wire).notifications)-notifications)
	c.bytes = append(c.bytes, q.wires.sum((*wire).bytes)-bytes)
}

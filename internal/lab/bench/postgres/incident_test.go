package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// incident is what happens to a leader.
type incident struct {
	name string
	// happen happens to one holder; nil if it happens to the server.
	happen func(tb testing.TB, s *server, h *holder)
	paused bool // the holder goes on when the next one leads
	killed bool // the holder can't be asked
}

var incidents = []incident{
	{name: "killed", killed: true, happen: func(tb testing.TB, _ *server, h *holder) { h.signal(tb, syscall.SIGKILL) }},
	{name: "cut-off", happen: func(_ testing.TB, _ *server, h *holder) { h.proxy.cutOff() }},
	{name: "paused", paused: true, happen: func(tb testing.TB, _ *server, h *holder) { h.signal(tb, syscall.SIGSTOP) }},
	{name: "terminated", happen: func(tb testing.TB, s *server, h *holder) {
		s.exec(tb, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = ANY($1)", h.proxy.from())
	}},
	{name: "server-crash"},
}

// atOnce is to how many leaders an incident happens at about the same time, each the leader of its own election.
const atOnce = 8

// BenchmarkIncident measures what follows when something happens to a leader: how long it takes until another candidate
// leads, and for how long after that the old leader takes itself for the leader, too. The TTL is 2 s, or what is nearest.
//
//	killed        SIGKILL: the kernel closes the connections
//	cut-off       its connections stay open and nothing passes, as when its machine has vanished
//	paused        SIGSTOP, and SIGCONT when another one leads
//	terminated    pg_terminate_backend for its connections, by an operator
//	server-crash  the server stops without a checkpoint, and starts again at once
//
// The metrics are p50-s and last-but-one-s until another one led; none, how many of the elections got no other leader in
// TTL + 10 s; two, how many had two leaders, and overlap-max-ms, for how long at most. Twenty seconds stand for any
// longer time.
func BenchmarkIncident(b *testing.B) {
	onEachContender(b, func(b *testing.B, s *server, c *contender) {
		for _, what := range incidents {
			b.Run(what.name, func(b *testing.B) { measureIncident(b, s, c, what) })
		}
	})
}

// The limits after which a benchmark waits no longer: for another leader, after the TTL, and for the old one to notice.
const (
	leaderLimit  = 10 * time.Second
	overlapLimit = 20 * time.Second
)

func measureIncident(b *testing.B, s *server, c *contender, what incident) {
	var took, overlaps []time.Duration
	none, two := 0, 0
	for round := 0; b.Loop(); round++ {
		var cases []*succession
		for i := range atOnce {
			cases = append(cases, newSuccession(b, s, c, fmt.Sprintf("%s%d_%d", what.name, round, i)))
		}
		var running sync.WaitGroup
		for _, a := range cases {
			if what.happen != nil {
				running.Go(func() { a.happen(b, s, c, what) })
			}
		}
		if what.happen == nil {
			now := time.Now()
			for _, a := range cases {
				a.began = now
			}
			s.crash(b)
		}
		running.Wait()
		for _, a := range cases {
			running.Go(func() { a.follow(b, c, what) })
		}
		running.Wait()
		for _, a := range cases {
			if a.led.IsZero() {
				none++
			} else {
				took = append(took, a.led.Sub(a.began))
				overlaps = append(overlaps, a.overlap)
			}
			if a.overlap > 0 {
				two++
			}
			a.end()
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(none), "none")
	if len(took) > 0 {
		b.ReportMetric(quantile(took, 0.5).Seconds(), "p50-s")
		b.ReportMetric(lastButOne(took).Seconds(), "last-but-one-s")
	}
	if len(took) > 0 && !what.killed {
		b.ReportMetric(float64(two), "two")
		b.ReportMetric(milliseconds(quantile(overlaps, 1)), "overlap-max-ms")
	}
}

// succession is a holder and its successor in this process.
type succession struct {
	holder    *holder
	process   process
	successor standing
	leads     chan time.Time // receives when the successor leads

	began, led time.Time     // zero if no one else leads
	overlap    time.Duration // for how long both took themselves for the leader
}

// newSuccession returns when the holder leads and the successor has begun to stand.
func newSuccession(tb testing.TB, s *server, c *contender, election string) *succession {
	tb.Helper()
	url := s.url(candidate, s.address())
	require.NoError(tb, c.install(context.Background(), url, election))
	a := &succession{holder: newHolder(tb, s, c, election), leads: make(chan time.Time, 100)}
	var err error
	a.process, err = c.open(context.Background(), url, c.ttl(short))
	require.NoError(tb, err)
	a.successor, err = a.process.enter(election, "successor", func() { a.leads <- time.Now() })
	require.NoError(tb, err)
	time.Sleep(rand.N(c.period())) // otherwise the two would poll and renew at the same moments
	require.NoError(tb, a.successor.stand())
	settle()
	return a
}

// period returns the longest interval in which a contender polls or renews.
func (c *contender) period() time.Duration {
	ttl := c.ttl(short)
	return max(time.Second, ttl/3, c.poll(ttl))
}

// happen lets the incident happen at a random moment.
func (a *succession) happen(tb testing.TB, s *server, c *contender, what incident) {
	time.Sleep(rand.N(c.period()))
	a.began = time.Now()
	what.happen(tb, s, a.holder)
}

// follow waits until the successor leads, and then until the holder no longer does.
func (a *succession) follow(tb testing.TB, c *contender, what incident) {
	select {
	case a.led = <-a.leads:
	case <-time.After(c.ttl(short) + leaderLimit):
	}
	both := a.led // since when both might lead
	if what.paused {
		both = time.Now()
		a.holder.signal(tb, syscall.SIGCONT)
	}
	if a.led.IsZero() || what.killed {
		return
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		last, leads := a.holder.led(tb)
		a.overlap = max(0, last.Sub(both))
		if !leads || time.Since(began) > overlapLimit {
			return
		}
	}
}

func (a *succession) end() {
	_ = a.holder.process.Process.Kill()
	a.successor.close()
	a.process.close()
}

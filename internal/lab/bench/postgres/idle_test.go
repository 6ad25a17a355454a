package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkIdle measures what one election costs in which nothing happens, by the number of candidates: statements and
// bytes of the write-ahead log in an hour, and connections. The TTL is 10 s, or what is nearest to that. What the server
// writes alone is measured, too.
func BenchmarkIdle(b *testing.B) {
	b.Run("none", func(b *testing.B) { measureRest(b, newServer(b), blockingLock) })
	onEachContender(b, func(b *testing.B, s *server, c *contender) {
		for _, n := range sizes {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				processes := min(n, maxProcesses)
				newGroup(b, s, c, fmt.Sprint("idle", n), n, processes, usual)
				measureRest(b, s, c)
				b.ReportMetric(s.connections(b)/float64(processes), "connections/process")
			})
		}
	})
}

// BenchmarkElections measures the same of a process that leads in many elections, and its share of a processor.
func BenchmarkElections(b *testing.B) {
	onEachContender(b, func(b *testing.B, s *server, c *contender) {
		for _, n := range []int{1, 1000} {
			if n > 1 && c == riverQueue { // each election is a schema with eight tables, and has a client
				continue
			}
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				url := s.url(candidate, s.address())
				require.NoError(b, c.install(b.Context(), url, "one"))
				p, err := c.open(b.Context(), url, c.ttl(usual))
				require.NoError(b, err)
				b.Cleanup(p.close)
				led, began := make(chan struct{}, n), time.Now()
				for i := range n {
					election := "one"
					if n > 1 {
						election = fmt.Sprint("many", i)
					}
					one, err := p.enter(election, "leader", func() { led <- struct{}{} })
					require.NoError(b, err)
					b.Cleanup(one.close)
					require.NoError(b, one.stand())
				}
				for range n {
					receive(b, led, "all to lead")
				}
				ready := time.Since(began)
				measureRest(b, s, c)
				b.ReportMetric(ready.Seconds(), "ready-s")
				b.ReportMetric(s.connections(b), "connections")
			})
		}
	})
}

// measureRest measures while nothing happens. An hour has twelve checkpoints by default. After each one, the first
// change of a page writes all of it. Autovacuum is off meanwhile: what it does in its first minutes in a new database,
// which is two megabytes, would hide the rest.
func measureRest(b *testing.B, s *server, c *contender) {
	const (
		first = 10 * time.Second // in which all pages are changed once that are changed at rest
		rest  = 30 * time.Second
	)
	time.Sleep(first) // until what is done once is over
	s.autovacuum(b, "off")
	b.Cleanup(func() { s.autovacuum(b, "on") })
	s.exec(b, "CHECKPOINT")
	time.Sleep(first)
	var statements, steady, whole float64
	var own, servers time.Duration
	loops := 0
	for b.Loop() {
		s.exec(b, "CHECKPOINT")
		start := s.wal(b)
		time.Sleep(first)
		before, log := s.statements(b, c.statements), s.wal(b)
		ownBefore, serversBefore := processorTime(b), s.processorTime(b)
		time.Sleep(rest)
		own, servers = own+processorTime(b)-ownBefore, servers+s.processorTime(b)-serversBefore
		statements += s.statements(b, c.statements) - before
		perSecond := (s.wal(b) - log) / rest.Seconds()
		steady += perSecond
		whole += max(0, log-start-perSecond*first.Seconds())
		loops++
	}
	n := float64(loops)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(statements/n/rest.Seconds()*3600, "statements/h")
	b.ReportMetric((steady*3600+12*whole)/n/1024, "wal-KiB/h")
	b.ReportMetric(100*own.Seconds()/n/rest.Seconds(), "own-cpu-%")
	b.ReportMetric(100*servers.Seconds()/n/rest.Seconds(), "server-cpu-%")
}

// processorTime returns how much processor time this process has used.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processorTime returns how much processor time the server's processes have used that run.
func (s *server) processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var all time.Duration
	list := strconv.Itoa(s.process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", list, "task", list, "children"))
	require.NoError(tb, err)
	for _, pid := range append(strings.Fields(string(children)), list) {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "schedstat"))
		if err != nil { // it has ended
			continue
		}
		nanoseconds, err := strconv.Atoi(strings.Fields(string(text))[0])
		require.NoError(tb, err)
		all += time.Duration(nanoseconds)
	}
	return all
}

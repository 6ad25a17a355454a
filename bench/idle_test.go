package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

const (
	// idleTTL is the session's timeout in BenchmarkIdle.
	idleTTL = 3 * time.Second
	// idleRenewals is how many renewals one measurement takes.
	idleRenewals = 12
	// manyElections is the number that is compared with one.
	manyElections = 200
)

// What a process does in all of its elections.
const (
	roleLeading   = "leading"
	roleWaiting   = "waiting"
	roleFollowing = "following"
)

// BenchmarkIdle compares what a process in which nothing happens sends with one election and with many. Everything
// counts, pings and renewals too. All elections of a process share its session, so that the two must be equal. What
// is sent depends on the session's TTL, 3 s here, and is in inverse proportion to it.
func BenchmarkIdle(b *testing.B) {
	b.Run("zookeeper", func(b *testing.B) {
		for _, role := range []string{roleLeading, roleWaiting, roleFollowing} {
			b.Run(role, func(b *testing.B) {
				server := startZooKeeper(b)
				leader := openStore(b, server, idleTTL, &wire{})
				one, many := newProcess(b, server, leader, role, 1), newProcess(b, server, leader, role, manyElections)
				for b.Loop() {
					one.count(b)
					many.count(b)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(one.rate(), "1-election-req/s")
				b.ReportMetric(many.rate(), fmt.Sprintf("%d-elections-req/s", manyElections))
				b.ReportMetric(ratio(many.rate(), one.rate()), "ratio")
			})
		}
	})
}

// process is what a process has: one session, and a number of elections on it.
type process struct {
	wire     *wire
	requests int
	took     time.Duration
}

// newProcess returns one that leads, waits or follows in n elections. Where it does not lead itself, others does.
func newProcess(b *testing.B, server string, others store.Store, role string, n int) *process {
	b.Helper()
	p := &process{wire: &wire{}}
	st := openStore(b, server, idleTTL, p.wire)
	leader := others
	if role == roleLeading {
		leader = st
	}
	for i := range n {
		election := fmt.Sprintf("idle/%d/%d", n, i)
		c := newContender(b, leader, election, "leader")
		c.stand(b)
		c.takeOver(b)
		switch role {
		case roleWaiting:
			newContender(b, st, election, "waiting").stand(b)
		case roleFollowing:
			f, err := leadership.NewFollower(st, election, nil)
			require.NoError(b, err)
			b.Cleanup(f.Stop)
			_, err = f.Wait(b.Context())
			require.NoError(b, err)
		}
	}
	wires{p.wire}.settle(b)
	return p
}

// count counts all requests from one renewal to another.
func (p *process) count(b *testing.B) {
	b.Helper()
	first, began := p.renewal(b, 1)
	last, ended := p.renewal(b, idleRenewals)
	p.requests += last.all() - first.all()
	p.took += ended.Sub(began)
}

// renewal waits for the nth renewal from now, and returns what has been sent by then, and when that was.
func (p *process) renewal(b *testing.B, n int) (sent tally, at time.Time) {
	b.Helper()
	end := p.wire.requests()[kindSync] + n
	poll(b, "renewals", func() bool {
		sent, at = p.wire.requests(), time.Now()
		return sent[kindSync] >= end
	})
	return sent, at
}

func (p *process) rate() float64 { return float64(p.requests) / p.took.Seconds() }

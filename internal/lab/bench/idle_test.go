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
	// idleFor is how long one measurement takes: several renewals, which are due every quarter of a TTL.
	idleFor = 2 * ttl
	// manyElections is the number that is compared with one.
	manyElections = 200
)

// What a process does in all of its elections.
const (
	roleLeading   = "leading"
	roleWaiting   = "waiting"
	roleFollowing = "following"
)

// BenchmarkIdle compares what a process in which nothing happens sends per second with one election and with many, at
// the same time. Everything counts, pings and renewals too. All elections of a process share its session, so
// the two should be equal. The number of requests is inversely proportional to the session's TTL, 10 s here.
func BenchmarkIdle(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		for _, role := range []string{roleLeading, roleWaiting, roleFollowing} {
			b.Run(role, func(b *testing.B) {
				others := s.openStore(b, ttl, s.newWire())
				one, many := newProcess(b, s, others, role, 1), newProcess(b, s, others, role, manyElections)
				time.Sleep(ttl / 4) // until what is done once, after a ballot was cast, is over
				ones, manys, began := one.requests(), many.requests(), time.Now()
				for b.Loop() {
					time.Sleep(idleFor) // what is measured: nothing happens
				}
				took := time.Since(began).Seconds()
				perOne, perMany := float64(one.requests()-ones)/took, float64(many.requests()-manys)/took
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(perOne, "1-election-req/s")
				b.ReportMetric(perMany, fmt.Sprintf("%d-elections-req/s", manyElections))
				b.ReportMetric(ratio(perMany, perOne), "ratio")
			})
		}
	})
}

// newProcess returns the wire of a process that leads, waits or follows in n elections on one session. If it does not
// lead, others leads.
func newProcess(b *testing.B, s *server, others store.Store, role string, n int) *wire {
	b.Helper()
	w := s.newWire()
	st := s.openStore(b, ttl, w)
	leader := others
	if role == roleLeading {
		leader = st
	}
	for i := range n {
		election := fmt.Sprintf("idle/%s/%d/%d", role, n, i)
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
	return w
}

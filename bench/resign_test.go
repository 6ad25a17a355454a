package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkResign measures the hand-over of an election: the leader, which has acknowledged, resigns, until its
// successor in another session leads. The floor is the deletion of a key until the watch of another client fires. The
// peer is what the plain client has for elections, from when one gives it up until another has it.
//
// With two candidates the leader's is the only ballot ahead of the successor's from the start. With three, each in
// turn, another was ahead when the successor's was cast.
func BenchmarkResign(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		floor := &series{measure: newFloor(b, s).deletion}
		ours := &series{measure: newQueue(b, s, "resign/2", 2, 2, ttl, "v").handover}
		three := &series{measure: newQueue(b, s, "resign/3", 3, 3, ttl, "v").handover}
		peer := &series{measure: newPeers(b, s).measure}
		interleave(b, floor, ours, three, peer)
		reportRatio(b, floor, ours)
		three.report(b, "three-", floor)
		peer.report(b, s.peer.name+"-", floor)
	})
}

// peers is two of the plain client's, each with a session of its own.
type peers struct {
	wires wires
	rest  time.Duration
	queue []*waiter // the holder first
}

// waiter is one that can be waited for.
type waiter struct {
	peer
	wire   *wire
	locked chan locked // receives what lock returned
	since  time.Time   // when it began to wait
}

type locked struct {
	at  time.Time
	err error
}

func newPeers(b *testing.B, s *server) *peers {
	p := &peers{wires: s.newWires(2), rest: s.peer.rest}
	for _, w := range p.wires {
		p.queue = append(p.queue, &waiter{peer: s.peer.new(b, s.address, w.dial), wire: w, locked: make(chan locked, 1)})
	}
	require.NoError(b, p.queue[0].lock(b.Context()))
	p.queue[1].wait(b)
	return p
}

// wait locks in the background, and returns when nothing more has to be sent for that.
func (w *waiter) wait(b *testing.B) {
	b.Helper()
	sent := w.wire.requests()
	go func() {
		err := w.lock(b.Context())
		w.locked <- locked{time.Now(), err}
	}()
	poll(b, "the peer to wait", func() bool { return w.wire.requests() > sent })
	wires{w.wire}.settle(b)
	w.since = time.Now()
}

func (p *peers) measure(b *testing.B) time.Duration {
	time.Sleep(p.rest - time.Since(p.queue[1].since)) // until the waiter has stood for as long as peers rest
	p.wires.settle(b)
	start := time.Now()
	require.NoError(b, p.queue[0].unlock(b.Context()))
	got := receive(b, p.queue[1].locked, "the peer")

	require.NoError(b, got.err)
	p.queue[0], p.queue[1] = p.queue[1], p.queue[0]
	p.queue[1].wait(b)
	return got.at.Sub(start)
}

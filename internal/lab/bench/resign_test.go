package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkResign measures the hand-over of an election: from the resignation of a leader that has acknowledged until its
// successor in another session leads. The floor is the time from the deletion of a key until the watch of another client
// fires. The peer is the lock or election of the plain client: from the release until the next one has it.
//
// With two candidates, only the leader's ballot was ever ahead of the successor's. With three, which lead in turn, another
// one was ahead, too, when the successor's ballot was cast.
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

// peers is two locks of the plain client, each with its own session.
type peers struct {
	wires wires
	rest  time.Duration
	queue []*waiter // the holder first
}

// waiter is a peer with a channel for its turn.
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

// wait locks in the background, and returns when the lock has sent its requests and waits.
func (w *waiter) wait(b *testing.B) {
	b.Helper()
	sent := w.wire.requests()
	go func() {
		err := w.lock(b.Context())
		w.locked <- locked{time.Now(), err}
	}()
	poll(b, "the peer to wait", func() bool { return w.wire.requests() > sent })
	wires{w.wire}.awaitQuiet(b)
	w.since = time.Now()
}

func (p *peers) measure(b *testing.B) time.Duration {
	time.Sleep(p.rest - time.Since(p.queue[1].since)) // until the waiter has stood for as long as peers rest
	p.wires.awaitQuiet(b)
	start := time.Now()
	require.NoError(b, p.queue[0].unlock(b.Context()))
	got := receive(b, p.queue[1].locked, "the peer")

	require.NoError(b, got.err)
	p.queue[0], p.queue[1] = p.queue[1], p.queue[0]
	p.queue[1].wait(b)
	return got.at.Sub(start)
}

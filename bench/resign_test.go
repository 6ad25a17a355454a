package bench

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// BenchmarkResign measures the hand-over of an election: the leader, which has acknowledged, resigns, until its
// successor in another session leads. The floor is the deletion of an ephemeral node until the watch of another
// client fires. The peer is the lock of the plain client, from Unlock until the other's Lock returns.
//
// With two candidates the leader's is the only ballot ahead of the successor's from the start. With three, each in
// turn, another was ahead when the successor's was cast.
func BenchmarkResign(b *testing.B) {
	b.Run("zookeeper", func(b *testing.B) {
		server := startZooKeeper(b)
		floor := &series{measure: newDeletion(b, server).measure}
		ours := &series{measure: newHandover(b, server, 2).measure}
		three := &series{measure: newHandover(b, server, 3).measure}
		peer := &series{measure: newLocks(b, server).measure}
		interleave(b, floor, ours, three, peer)
		reportRatio(b, floor, ours)
		three.report(b, "three-", floor)
		peer.report(b, "zk.Lock-", floor)
	})
}

// deletion is the floor: two sessions and a node.
type deletion struct {
	holder, waiter *zk.Conn
	wires          wires
	path           string
}

func newDeletion(b *testing.B, server string) *deletion {
	n := &deletion{wires: newWires(2)}
	n.holder, n.waiter = connect(b, server, n.wires[0]), connect(b, server, n.wires[1])
	n.path = makeDir(b, n.holder, "/floor") + "/node"
	return n
}

func (n *deletion) measure(b *testing.B) time.Duration {
	_, err := n.holder.Create(n.path, nil, zk.FlagEphemeral, world)
	require.NoError(b, err)
	_, _, watch, err := n.waiter.GetW(n.path)
	require.NoError(b, err)
	gone := make(chan time.Time, 1)
	go func() {
		<-watch
		gone <- time.Now()
	}()
	n.wires.settle(b)

	start := time.Now()
	require.NoError(b, n.holder.Delete(n.path, -1))
	return receive(b, gone, "the watch to fire").Sub(start)
}

// handover is an election whose candidates have a session each.
type handover struct {
	wires wires
	queue []*contender // the leader first
}

func newHandover(b *testing.B, server string, candidates int) *handover {
	h := &handover{wires: newWires(candidates)}
	election := "resign/" + strconv.Itoa(candidates)
	for i, w := range h.wires {
		c := newContender(b, openStore(b, server, ttl, w), election, strconv.Itoa(i))
		c.stand(b)
		h.queue = append(h.queue, c)
	}
	h.queue[0].takeOver(b)
	return h
}

func (h *handover) measure(b *testing.B) time.Duration {
	h.wires.settle(b)
	start := time.Now()
	require.NoError(b, h.queue[0].Resign(b.Context()))
	took := h.queue[1].takeOver(b).Sub(start)

	h.queue = append(h.queue[1:], h.queue[0])
	h.queue[len(h.queue)-1].stand(b)
	return took
}

// locks is two locks of the plain client on one path, each with a session of its own.
type locks struct {
	wires        wires
	holder, next *lock
}

type lock struct {
	*zk.Lock
	wire   *wire
	locked chan locked // receives what Lock returned
}

type locked struct {
	at  time.Time
	err error
}

func newLocks(b *testing.B, server string) *locks {
	l := &locks{wires: newWires(2)}
	newLock := func(w *wire) *lock {
		return &lock{zk.NewLock(connect(b, server, w), "/lock", world), w, make(chan locked, 1)}
	}
	l.holder, l.next = newLock(l.wires[0]), newLock(l.wires[1])
	require.NoError(b, l.holder.Lock.Lock())
	l.next.wait(b)
	return l
}

// wait locks in the background, and returns when the watch on the holder is set.
func (l *lock) wait(b *testing.B) {
	b.Helper()
	watches := l.wire.answers(kindGetAndWatch)
	go func() {
		err := l.Lock.Lock()
		l.locked <- locked{time.Now(), err}
	}()
	poll(b, "the lock's watch", func() bool { return l.wire.answers(kindGetAndWatch) > watches })
}

func (l *locks) measure(b *testing.B) time.Duration {
	l.wires.settle(b)
	start := time.Now()
	require.NoError(b, l.holder.Unlock())
	got := receive(b, l.next.locked, "the lock")

	require.NoError(b, got.err)
	l.holder, l.next = l.next, l.holder
	l.next.wait(b)
	return got.at.Sub(start)
}

package bench

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// BenchmarkFollower measures how long a follower has an old leader or none. The leader resigns, its successor in another
// session leads and acknowledges at once; the time ends when a follower in a third session knows the successor. The floor
// is that of BenchmarkResign. Here two writes follow each other, and another client is notified of each. The metrics with
// the prefix "relay-" are the time that this takes plain clients, and "relay-ratio" its ratio to the floor. No program
// needs less.
func BenchmarkFollower(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		floor := &series{measure: newFloor(b, s).deletion}
		relay := &series{measure: newRelay(b, s).measure}
		ours := &series{measure: newSuccession(b, s).measure}
		interleave(b, floor, relay, ours)
		reportRatio(b, floor, ours)
		relay.report(b, "relay-", floor)
	})
}

// relay is three sessions of the plain client. The first deletes a key; the second is notified and creates another; the
// third is notified of that.
type relay struct {
	*floor
	last plain
}

func newRelay(b *testing.B, s *server) *relay {
	r := &relay{floor: newFloor(b, s)}
	w := s.newWire()
	r.last = s.connect(b, s.address, w.dial)
	r.wires = append(r.wires, w)
	return r
}

func (r *relay) measure(b *testing.B) time.Duration {
	const first, second = "relay-first", "relay-second"
	require.NoError(b, r.writer.create(b.Context(), first, floorValue))
	gone, err := r.reader.watch(b.Context(), first)
	require.NoError(b, err)
	known, err := r.last.watch(b.Context(), second)
	require.NoError(b, err)
	passed := make(chan error, 1)
	go func() {
		<-gone
		passed <- r.reader.create(b.Context(), second, floorValue)
	}()
	r.wires.awaitQuiet(b)

	start := time.Now()
	require.NoError(b, r.writer.delete(b.Context(), first))
	news := receive(b, known, "the last one to know")

	require.NoError(b, receive(b, passed, "the second one to write"))
	require.Equal(b, floorValue, news.value)
	require.NoError(b, r.reader.delete(b.Context(), second))
	return news.at.Sub(start)
}

// succession is two candidates and a follower, each with its own session.
type succession struct {
	*queue
	follower *listener
}

func newSuccession(b *testing.B, s *server) *succession {
	const election = "follower"
	q := newQueue(b, s, election, 2, 2, ttl, "v")
	f := newListener(b, s, election)
	q.wires = append(q.wires, f.wire)
	return &succession{q, f}
}

func (s *succession) measure(b *testing.B) time.Duration {
	s.reenter(b)
	s.wires.awaitQuiet(b)
	began, _ := s.change(b)
	return s.follower.await(b).Sub(began)
}

// listener is a follower that sends each change on a channel.
type listener struct {
	wire  *wire
	known chan news
	last  uint64 // revision
}

// news is a change that the follower saw, and when.
type news struct {
	at     time.Time
	leader leadership.Leader
}

// newListener returns when the follower knows the present state.
func newListener(b *testing.B, s *server, election string) *listener {
	b.Helper()
	l := &listener{wire: s.newWire(), known: make(chan news, 1)}
	follower, err := leadership.NewFollower(s.openStore(b, ttl, l.wire), election, &leadership.FollowerOptions{Events: func(e leadership.Event) {
		if e.Kind == leadership.LeaderChanged {
			l.known <- news{time.Now(), e.Leader}
		}
	}})
	require.NoError(b, err)
	b.Cleanup(follower.Stop)
	follower.Start()
	require.Eventually(b, func() bool { return !follower.AsOf().IsZero() }, time.Minute, time.Millisecond, "the first state")
	if _, led := follower.Leader(); led { // otherwise there is no event
		l.last = receive(b, l.known, "the first leader").leader.Revision
	}
	return l
}

// await returns the time at which the follower saw the next leader. It might see before that there is none.
func (l *listener) await(b *testing.B) time.Time {
	b.Helper()
	for {
		n := receive(b, l.known, "the follower to know")
		if n.leader.Revision != 0 {
			require.Greater(b, n.leader.Revision, l.last)
			l.last = n.leader.Revision
			return n.at
		}
	}
}

package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkAcknowledge measures how soon a follower in another session knows a leader: from the call of
// Term.Acknowledge until the follower's hook LeaderChanged, which is called once Follower.Leader returns the new one.
// The floor is the time from the creation of a key until another client, notified by a watch, has the value.
func BenchmarkAcknowledge(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		floor := &series{measure: newFloor(b, s).news}
		ours := &series{measure: newAnnouncement(b, s).measure}
		interleave(b, floor, ours)
		reportRatio(b, floor, ours)
	})
}

// announcement is a leader and a follower, each with a session of its own.
type announcement struct {
	wires    wires
	leader   *contender
	follower *listener
}

func newAnnouncement(b *testing.B, s *server) *announcement {
	b.Helper()
	const election = "acknowledge"
	w := s.newWire()
	leader := newContender(b, s.openStore(b, ttl, w), election, "a")
	follower := newListener(b, s, election)
	return &announcement{wires{w, follower.wire}, leader, follower}
}

func (a *announcement) measure(b *testing.B) time.Duration {
	a.leader.stand(b)
	_, term := a.leader.lead(b)
	a.wires.awaitQuiet(b)

	start := time.Now()
	require.NoError(b, term.Acknowledge(b.Context()))
	told := a.follower.await(b)

	require.NoError(b, term.Withdraw(b.Context()))
	require.Zero(b, receive(b, a.follower.known, "the follower to know").leader)
	return told.Sub(start)
}

package zookeeper

import (
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
)

// touches derives from the confirmations of a session how long the ensemble's leader certainly lets the session live.
//
// The leader ends a session when it has not heard of a touch for the TTL. A server answers by itself and reports the
// touches it has seen with each ping of the leader's, every half tick; a barrier goes through the leader and a quorum. So
// the answer to a confirmation proves that the leader knows of an earlier confirmation only if a ping lay in between: if
// the earlier was answered half a tick before the later was sent. Times of sending prove less, since requests can arrive
// together.
//
// A store does not know the tick. With a TTL of three ticks or more, half a tick is at most TTL/6; with two, the least
// that servers grant by default, TTL/4. So the TTL counts from the newest confirmation that was answered TTL/6 before the
// last was sent, but from at most half the grace after the newest that was answered TTL/4 before. With three ticks the
// whole grace remains, with two at least half the grace.
//
// A leader that pauses sends no pings. After the pause, the leader might answer a confirmation before it hears of the
// touches since its last ping. So no touch counts across a silence: the connection is given up, and the next handshake is the
// first touch anew. Unless this process has stood still, serve gives the connection up before the silence is that long.
// docs/backends.md has the arithmetic.
type touches struct {
	ttl, grace time.Duration
	list       []touch // the oldest first
}

// touch is a confirmation that has been answered, or the handshake: the leader itself opens and resumes sessions, so the
// first confirmation on the same connection proves that the leader knows of the handshake.
type touch struct {
	sent     store.Instant
	answered time.Time // zero for the handshake
}

// silence is the longest time between two answers that lets the first count: until the next confirmation is sent, and
// until a connection that does not answer is given up.
func silence(ttl time.Duration) time.Duration { return pause(ttl) + patience(ttl) }

// silent reports whether an answer that comes now ends a silence.
func (l *touches) silent(now time.Time) bool {
	last := l.list[len(l.list)-1].answered
	return !last.IsZero() && now.Sub(last) > silence(l.ttl)
}

// add adds a confirmation. The confirmation proves that the leader knows of an earlier touch. add returns how much earlier
// that touch was sent, and whether it was a confirmation.
func (l *touches) add(c touch) (age time.Duration, renewal bool) {
	var certain, newest time.Duration
	for _, t := range l.list { // the later, the younger
		gap, a := c.sent.Time().Sub(t.answered), t.sent.Since(c.sent.Time())
		if gap >= l.ttl/4 {
			certain = a
		}
		if gap >= l.ttl/6 {
			newest, renewal = a, !t.answered.IsZero()
		}
	}
	l.list = append(l.list, c)
	for len(l.list) > 1 && c.sent.Time().Sub(l.list[1].answered) >= l.ttl/4 {
		l.list = slices.Delete(l.list, 0, 1)
	}
	return max(newest, certain-l.grace/2), renewal
}

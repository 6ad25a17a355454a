package zookeeper

import (
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
)

// touches derives from the confirmations of a session how long the ensemble's leader certainly lets it live.
//
// The leader ends a session when it has not heard of a touch for the TTL. A server answers by itself and reports the
// touches it has seen with each ping of the leader's, every half tick; a barrier goes through the leader and a quorum. So
// the answer to a confirmation proves that the leader knows of an earlier one only if a ping lay in between: if the
// earlier one was answered half a tick before this one was sent. Times of sending prove less, since requests can arrive
// together.
//
// A store does not know the tick. With a TTL of three ticks or more, half a tick is at most TTL/6; with two, the least
// that servers grant by default, TTL/4. So the TTL counts from the newest confirmation that was answered TTL/6 before
// this one was sent, but from at most half the grace after the newest that was answered TTL/4 before. With three ticks
// the whole grace remains, with two at least half of it.
//
// A leader that pauses sends no pings, and when it resumes it might answer a confirmation before it hears of the touches
// since its last ping. So after a silence only a touch of which the leader knew counts. The connection
// is cut before that. docs/backends.md has the arithmetic.
type touches struct {
	ttl, grace time.Duration
	list       []touch // the oldest first
}

// touch is a confirmation that has been answered.
type touch struct {
	sent     store.Instant
	answered time.Time
	known    bool // the leader knows of it already
}

// interval is how often a session is confirmed. Half a tick is no longer, if the TTL is at least three ticks.
func interval(ttl time.Duration) time.Duration { return ttl / 6 }

// silence is the longest time between two answers that lets the first count: until the next confirmation is sent, and
// until a connection that does not answer it is cut.
func silence(ttl time.Duration) time.Duration { return interval(ttl) + ttl/4 }

// reset begins anew with a handshake: a leader itself opens and resumes sessions. The first confirmation on the same
// connection proves that it was the ensemble's leader.
func (l *touches) reset(sent store.Instant) { l.list = []touch{{sent: sent, known: true}} }

// next is how long after its answer the last confirmation is followed by another that can make it count.
func (l *touches) next() time.Duration {
	if len(l.list) == 1 && !l.list[0].known {
		return l.ttl / 4
	}
	return interval(l.ttl)
}

// add adds a confirmation. It returns by how much earlier than this one the touch was sent from which the leader counts
// the TTL at the least, and false if none is certain.
func (l *touches) add(c touch) (age time.Duration, ok bool) {
	if n := len(l.list); n > 0 && c.answered.Sub(l.list[n-1].answered) > silence(l.ttl) {
		l.list = slices.DeleteFunc(l.list, func(t touch) bool { return !t.known })
	}
	var certain, newest time.Duration
	for _, t := range l.list { // the later, the younger
		gap, a := c.sent.Time().Sub(t.answered), t.sent.Since(c.sent.Time())
		if t.known || gap >= l.ttl/4 {
			certain, ok = a, true
		}
		if t.known || gap >= interval(l.ttl) {
			newest = a
		}
	}
	l.list = append(l.list, c)
	for len(l.list) > 1 && c.sent.Time().Sub(l.list[1].answered) >= l.ttl/4 {
		l.list = slices.Delete(l.list, 0, 1)
	}
	return max(newest, certain-l.grace/2), ok
}

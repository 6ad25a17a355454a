package simulation_test

import (
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/memory"
)

// history is what happened at the service, with the times. Followers' reports are compared with it.
type history struct {
	mu     sync.Mutex
	ended  map[leadership.Leader]time.Time // when a leader, or the time without one, ended the last time; guarded by mu
	leader leadership.Leader               // guarded by mu
}

// led notes that there is another leader, or none.
func (h *history) led(e memory.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[h.leader] = time.Now()
	h.leader = e.Leader
	delete(h.ended, e.Leader)
}

// rightUntil returns the last time at which a leader, or no leader, was right; zero if it never was.
func (h *history) rightUntil(leader leadership.Leader) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leader == leader {
		return time.Now()
	}
	return h.ended[leader]
}

// follows checks a follower's report. Its leader never goes back. AsOf is never later than a moment at which that
// leader was right. It is not older than half a TTL and two round trips, if the line has worked for that long.
func (k *checks) follows(f *simFollower) {
	asOf := f.AsOf()
	leader, led := f.Leader()
	if led {
		if leader.Revision < f.highest {
			k.violate("%s went back from revision %d to %d", f.name, f.highest, leader.Revision)
		}
		f.highest = leader.Revision
		k.notified(f.name, leader)
	}
	if asOf.Before(f.asOf) {
		k.violate("%s knew the leader as of %v, and now as of %v", f.name, f.asOf.Sub(k.began), asOf.Sub(k.began))
	}
	f.asOf = asOf
	if !asOf.IsZero() {
		if until := k.rightUntil(leader); until.Before(asOf) {
			k.violate("%s says that %q (%d) leads as of %v, and it did until %v", f.name, leader.Value, leader.Revision,
				asOf.Sub(k.began), until.Sub(k.began))
		}
	}
	bound := time.Duration(float64(simTTL/2)/f.clock) + 2*f.trip
	since := k.began.Add(time.Duration(f.pause.Load()))
	if since.Before(f.since) {
		since = f.since
	}
	if !f.broken && time.Since(since) > bound && time.Since(asOf) > bound {
		k.violate("%s knows the leader as of %v ago, its line is in order and a round trip takes %v", f.name,
			time.Since(asOf), f.trip)
	}
}

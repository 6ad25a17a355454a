package etcd

import (
	"time"

	"google.golang.org/grpc/peer"
)

// A member that falls silent is left within a quarter of the TTL if there is another endpoint: the connection to it is
// closed, so that all that waits for its answers goes elsewhere at once. The client library would wait for 15 s, and the
// lease would end (TestSilentMemberIsLeft).
//
//   - A request that a silent member gets is given up after TTL/5.
//   - The stream of watches is probed when nothing has come over its connection for 3/40 of the TTL, and the member
//     left after another TTL/10, each rounded up to TTL/40: 9/40 of the TTL at most.
//   - A renewal that is late is sent on another stream too after TTL/10, and the member left after TTL/5.
//
// They take longer if the last round trips did, so that a slow link is not taken for a silent one: half as much again as
// the shorter of the last two. One answer can be late because the cluster elects a leader, and says nothing about the
// link: the lease has to outlast the next silent member. With one endpoint there is nowhere to go, and it takes 3/10 of
// the TTL: more than the round trip of TTL/8 that the store promises to work with, and little enough for a renewal over another
// connection.

// silence is for how long a member that owes an answer may be silent before it is left; least is for quick ones of
// several.
func (d *driver) silence(least time.Duration) time.Duration {
	if d.alone() {
		least = max(least, d.config.TTL*3/10)
	}
	return d.timeout(least)
}

// timeout is how long to wait for an answer; least is for quick members.
func (d *driver) timeout(least time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(least, d.trip*3/2)
}

// alone reports whether there is one endpoint only.
func (d *driver) alone() bool { return d.endpoints == 1 }

// measured records a round trip that took little more time than the link needs. The shorter of the last two counts.
func (d *driver) measured(trip time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trip = trip
	if d.lastTrip > 0 {
		d.trip = min(trip, d.lastTrip)
	}
	d.lastTrip = trip
}

// connectionTo returns the connection to a member; nil if it is not one that the store dialled.
func (d *driver) connectionTo(member *peer.Peer) *connection {
	if member == nil || member.Addr == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.connections {
		if c.RemoteAddr().String() == member.Addr.String() {
			return c
		}
	}
	return nil
}

// disconnect closes the connection to a member that owes an answer, if nothing has come over it since that time. A
// connection that was dialled later owes nothing: then since.Sub(dialled) is negative, and heard never is.
func (d *driver) disconnect(member *peer.Peer, since time.Time) {
	if c := d.connectionTo(member); c != nil && c.heard.Load() < int64(since.Sub(c.dialled)) {
		_ = c.Close()
	}
}

// detector notices if the member that has the stream of watches is silent. It counts intervals and not time, so that a
// process that was paused does not take its own silence for the member's. Without it only a request to the same member
// would find out, which may come much later (TestSilentStreamIsGivenUp).
type detector struct {
	driver     *driver
	connection *connection // nil if the store did not dial it

	heard int64     // what there was at the interval before
	idle  int       // for how many intervals nothing has come
	owes  int       // for how many of them an answer was owed
	since time.Time // when that began
}

// interval is how often silent must be called.
func (t *detector) interval() time.Duration { return max(t.driver.config.TTL/40, time.Millisecond) }

// silent reports whether the store must leave the member. It asks for a sign of life when there has been none for a
// while and there is another member to go to.
func (t *detector) silent() bool {
	ws := &t.driver.watches
	ws.mu.Lock()
	heard, owes := int64(ws.messages), ws.asked || len(ws.creating) > 0
	if t.connection != nil {
		heard += t.connection.heard.Load()
	}
	if heard != t.heard {
		t.heard, t.idle, t.owes = heard, 0, 0
	} else {
		t.idle++
	}
	probe := !owes && t.idle >= 3 && len(ws.byID) > 0 && !t.driver.alone()
	if probe {
		ws.askProgress()
	}
	ws.mu.Unlock()
	if !owes || t.idle == 0 {
		t.owes = 0
		return false
	}
	if t.owes++; t.owes == 1 {
		t.since = time.Now().Add(-t.interval())
	}
	return time.Duration(t.owes)*t.interval() >= t.driver.silence(t.driver.config.TTL/10)
}

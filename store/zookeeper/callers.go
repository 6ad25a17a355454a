package zookeeper

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// This file has what a connection of the caller's needs in addition. It has no wire, so the library keeps the watches,
// and the store sends requests to find out what happens to the connection.

// relay waits for the event of one watch of the library's. The library can't take a watch back, and another one on the
// same node would add to it. So there is one relay for each node, which lasts until the node changes. It has a goroutine
// only while the engine has a watch on the node (TestStoppedFollowersLeaveNoGoroutine).
type relay struct {
	events   <-chan zk.Event // has room for the event, which is the only one
	confirms chan time.Time  // hands confirmations to the goroutine
	idle     chan struct{}   // tells the goroutine that the last watch of the engine's was taken back
	runs     bool            // guarded by the mutex of watches: there is a goroutine
}

// relayed reports whether the library has a watch that has not fired. If so, and if the engine has one too, a goroutine
// waits for its event.
func (w *watches) relayed(key watchKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.relay(key)
	if r != nil {
		w.run(key, r)
	}
	return r != nil
}

// relay returns the relay of a node, or nil. It forgets one whose watch has fired while it had no goroutine. The caller
// holds mu.
func (w *watches) relay(key watchKey) *relay {
	r := w.relays[key]
	if r != nil && !r.runs && len(r.events) > 0 {
		delete(w.relays, key)
		return nil
	}
	return r
}

// setCallers reads a node and lets the library set a watch.
func (d *driver) setCallers(key watchKey) (n node, err error) {
	var events <-chan zk.Event
	if key.absent {
		var exists bool
		if exists, n.stat, events, err = d.conn.ExistsW(key.path); exists {
			err = zk.ErrNodeExists // the library now has a watch on the data, which nothing waits for
		}
	} else {
		n.data, n.stat, events, err = d.conn.GetW(key.path)
	}
	if err == nil {
		d.watches.addRelay(key, events)
	}
	return n, err
}

// addRelay waits for the event of a watch of the library's, or of an earlier one on the same node that has not fired.
func (w *watches) addRelay(key watchKey, events <-chan zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.relay(key)
	if r == nil {
		if w.relays == nil {
			w.relays = map[watchKey]*relay{}
		}
		r = &relay{events: events, confirms: make(chan time.Time, 1), idle: make(chan struct{}, 1)}
		w.relays[key] = r
	}
	w.run(key, r)
}

// run starts the goroutine of a relay if there is none, unless the engine's watches were taken back meanwhile. The caller
// holds mu.
func (w *watches) run(key watchKey, r *relay) {
	if r.runs || len(w.set[key]) == 0 {
		return
	}
	r.runs = w.start(func() {
		for {
			select {
			case e := <-r.events:
				w.fired(key, e)
				return
			case asOf := <-r.confirms:
				if len(r.events) == 0 { // a confirmation comes behind what the library has told before
					w.mu.Lock()
					w.confirm(key, asOf)
					w.mu.Unlock()
				}
			case <-r.idle:
				if w.rest(key, r) {
					return
				}
			case <-w.done:
				return
			}
		}
	})
}

// rest reports whether a relay's goroutine has nothing to wait for, and notes then that it ends.
func (w *watches) rest(key watchKey, r *relay) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.runs = len(w.set[key]) > 0
	return !r.runs
}

// fired ends the watches on a node, and the relay before that: a read from then on sets a watch anew.
func (w *watches) fired(key watchKey, e zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.relays, key)
	w.over(key, e.Type == zk.EventNodeDeleted)
}

// tell tells the watches as of when they have told all changes: as of a confirmation on a connection of the driver's
// own. A caller's connection might have been replaced since, and the answer to the request that sets its watches again
// can't be seen. So there the time is that of a confirmation that was sent an interval earlier. If the library takes
// longer than that to set them again and to read the events, the time is too late: a change that was missed meanwhile
// is told after it.
func (k *keeper) tell(sent time.Time) {
	ttl := k.config.TTL
	if k.config.Conn != nil {
		earlier := k.before
		if sent.Sub(earlier) < interval(ttl) {
			return
		}
		if k.before, sent = sent, earlier; sent.IsZero() {
			return
		}
	}
	k.watches.confirmed(sent)
}

// listen gives up the session of a caller's connection that has been there for a TTL without an answer. The library
// might be connecting again and again, and each handshake prolong the session: then its ballots would stand, and not
// learn that they are first (conformance: the cases in which replies are lost, by TestCallersConnectionConforms).
func (k *keeper) listen() {
	if k.config.Conn == nil {
		return
	}
	now, before := time.Now(), k.seen
	k.seen = now
	if s := k.conn.State(); s == zk.StateConnected || s == zk.StateHasSession {
		k.mute += min(now.Sub(before), interval(k.config.TTL))
	}
	if k.mute > k.config.TTL {
		k.mute = 0
		k.set(func() { k.lose(fmt.Errorf("the connection has not answered for %v", k.config.TTL)) })
	}
}

// checkCaller finds out that the caller has closed its connection (TestCallerClosesTheConnection): the library then
// refuses each request at once; without that, one waits for the next connection.
func (k *keeper) checkCaller(err error, after time.Duration) {
	if k.config.Conn == nil {
		return
	}
	if !errors.Is(err, zk.ErrConnectionClosed) || after > 10*time.Millisecond || k.conn.State() != zk.StateDisconnected {
		k.refusals = 0
		return
	}
	if k.refusals++; k.refusals == 3 {
		k.set(func() {
			k.refused = fmt.Errorf("%w: the caller has closed its connection", store.ErrClosed)
			k.lose(k.refused)
		})
	}
}

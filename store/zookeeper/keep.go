package zookeeper

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// keeper confirms the session until the store is closed: once after each connection, and then a TTL/6 after the answer to
// the last, see barrier. While an answer takes longer than TTL/24, it sends one each TTL/48, so that a lease is renewed as
// often over a slow link (TestSlowLink). All of its state is that of the goroutine which runs keep.
type keeper struct {
	*driver
	connected time.Time         // when the last connection was, after which the session was confirmed
	under     []store.Instant   // when those were sent that have no answer yet, the oldest first
	last      time.Time         // when the last one was sent or answered
	answers   chan confirmation // has room for as many as are under way
}

// confirmation is the answer to a barrier.
type confirmation struct {
	sent store.Instant
	err  error
}

// mostUnderWay is how many confirmations are under way at most: those of TTL/3.
const mostUnderWay = 16

func (d *driver) keep() {
	k := &keeper{driver: d, answers: make(chan confirmation, mostUnderWay)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.mu.Lock()
		changed, ready, refused := d.changed, d.ready, d.refused
		d.mu.Unlock()
		if refused != nil {
			d.hosts.closed.Store(true)
			d.conn.Close()
			d.cut(refused)
			return
		}
		if ready.After(k.connected) || time.Until(k.due()) <= 0 {
			k.connected = ready
			k.send()
		}
		k.cutSilent()
		timer.Reset(max(time.Until(k.due()), time.Millisecond))
		select {
		case <-changed:
		case <-timer.C:
		case c := <-k.answers:
			k.last = time.Now()
			k.under = slices.DeleteFunc(k.under, func(i store.Instant) bool { return i == c.sent })
			if c.err == nil && d.touched(c) {
				k.watches.confirmed(c.sent.Time())
			}
		case <-d.lifecycle.Background.Done():
			return
		}
	}
}

// due returns when the next confirmation must be sent.
func (k *keeper) due() time.Time {
	ttl := k.config.TTL
	switch {
	case len(k.under) == 0:
		return k.last.Add(k.next())
	case len(k.under) == mostUnderWay, !k.up():
		return time.Now().Add(interval(ttl))
	}
	late, spaced := k.under[0].Time().Add(ttl/24), k.last.Add(ttl/48)
	if late.After(spaced) {
		return late
	}
	return spaced
}

// next is how long after the last answer the next confirmation is sent.
func (d *driver) next() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return interval(d.config.TTL)
	}
	return d.current.touches.next()
}

// send sends a confirmation, if the connection is up.
func (k *keeper) send() {
	k.last = time.Now()
	if !k.up() {
		return
	}
	c := confirmation{sent: store.Now()}
	k.under = append(k.under, c.sent)
	k.lifecycle.Go(func() {
		c.err = k.barrier()
		k.leave(c.sent.Time(), c.err)
		select {
		case k.answers <- c:
		case <-k.lifecycle.Background.Done(): // keep might have ended
		}
	})
}

// barrier is answered by a quorum of the ensemble, behind all that was committed before it: a transaction that changes
// nothing. A Sync is not enough: a leader of the ensemble that has lost the others answers it for some ticks more, and
// they might have elected another one (TestEnsemble).
func (d *driver) barrier() error {
	_, err := d.conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if errors.Is(err, zk.ErrNoAuth) { // a refusal goes through the quorum too
		return nil
	}
	return explain(err)
}

// cutSilent cuts a connection that has answered no confirmation for long: the next server may answer
// while the lease still holds (TestServerFallsSilent). The time counts from the end of the handshake, which has limits
// of its own (TestReconnectionIsNotCut).
func (k *keeper) cutSilent() {
	if len(k.under) == 0 {
		return
	}
	k.mu.Lock()
	since, trip, ttl := k.ready, k.trip, k.config.TTL
	k.mu.Unlock()
	patience := max(ttl/6, min(ttl/4, 3*trip)) // a confirmation is written to disks, and takes longer than a handshake
	if since.IsZero() {
		return
	}
	if oldest := k.under[0].Time(); oldest.After(since) {
		since = oldest
	}
	if time.Since(since) >= patience {
		k.cut(fmt.Errorf("%s: the server has not answered for %v", k.conn.Server(), patience))
	}
}

// touched takes a confirmation of the present session. It reports false of any other.
func (d *driver) touched(c confirmation) (present bool) {
	d.set(func() {
		sess := d.current
		if present = sess != nil && !c.sent.Time().Before(sess.since.Time()); !present {
			return
		}
		if age, certain := sess.touches.add(touch{sent: c.sent, answered: time.Now()}); certain && (sess.begun(age, c.sent) || d.renewedInTime()) {
			sess.prove(c.sent, d.config.TTL-d.config.Grace-age)
		}
		if c.sent.Time().After(d.confirmed) {
			d.confirmed = c.sent.Time()
		}
	})
	return present
}

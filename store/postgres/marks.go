package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/store"
)

// marks are the marks of other sessions, as requests have shown them. There is one rule: each answer that shows a
// session shows its mark, and a mark that has stood for the session's TTL ends the session. look shows the sessions of
// what is watched, renew the eight that come after its own in the ring of all, and enter the pause after a failover.
// The driver's mu guards marks.
type marks map[string]*peer

// peer is a session of another process.
type peer struct {
	mark     int64
	ttl      time.Duration // after which this program tries to end the session
	since    time.Time     // after the first answer with this mark
	last     time.Time     // after the last answer with this mark
	watched  bool          // look shows it
	expiring bool          // a request to end it is under way
	dead     bool          // its mark has stood for its TTL once, and this program may not end it
}

// note notes the mark that an answer has shown, and ends the session if the mark has stood for its TTL. now is a time
// after the answer came. note reports whether the mark has stood for its TTL and this program may not end the session.
func (d *driver) note(id string, mark, ttl int64, now time.Time) (dead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.marks[id]
	switch {
	case p == nil:
		p = &peer{}
		d.marks[id] = p
		fallthrough
	case p.mark != mark:
		*p = peer{mark: mark, ttl: time.Duration(ttl) * time.Millisecond, since: now, watched: p.watched, expiring: p.expiring}
	}
	p.last = now
	if now.Sub(p.since) >= p.ttl && !p.expiring {
		p.expiring = true
		if !d.life.Go(func() { d.expire(id, mark) }) {
			p.expiring = false
		}
	}
	return p.dead
}

// expire ends a session whose mark has stood for its TTL, if it still has that mark.
func (d *driver) expire(id string, mark int64) {
	type row struct{ Gone bool }
	ctx, cancel := context.WithTimeout(d.life.Background, 2*d.config.TTL)
	defer cancel()
	rows, _, err := query[row](ctx, d, d.requests, d.call("expire($1, $2)"), id, mark)
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.marks[id]
	if p == nil {
		return
	}
	p.expiring = false
	switch {
	case err == nil && len(rows) == 1 && rows[0].Gone:
		delete(d.marks, id)
	case errors.Is(err, store.ErrDenied) && p.mark == mark: // a follower's role: the session's lease is over all the same
		p.dead = true
		p.ttl *= 2 // for the next try: the right might be granted
		d.watches.all = true
		d.link.wake()
	case err != nil:
		p.since = p.since.Add(p.ttl / 8) // for the next try
		d.link.wake()
	}
}

// forget drops what has not been shown for long: each mark that still matters is shown at least once in ttl, which is
// that of this driver. The caller holds mu.
func (m marks) forget(now time.Time, ttl time.Duration) {
	for id, p := range m {
		if now.Sub(p.last) > 2*max(p.ttl, ttl) && !p.expiring {
			delete(m, id)
		}
	}
}

// due returns when the next mark will have stood for its TTL, of the sessions that are watched; zero if there is none.
// The caller holds mu.
func (m marks) due() (at time.Time) {
	for _, p := range m {
		if t := p.since.Add(p.ttl); p.watched && !p.expiring && !p.dead && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

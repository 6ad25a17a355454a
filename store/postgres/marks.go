package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// marks are the marks of other sessions, as requests have shown them. There is one rule, engine.Silence: each answer
// that shows a session shows its mark, and how long the mark still has to stand until the session may be ended. look
// shows the sessions of what is watched, renew those that come after its own in the ring of all, and enter the pause
// after a failover. The driver's mu guards marks.
type marks map[string]*peer

// peer is a session of another process.
type peer struct {
	silence  engine.Silence
	left     time.Duration // what the last answer has shown: how long the mark still has to stand
	retry    time.Time     // the session is not ended before, since the last try has failed
	pause    time.Duration // before that
	last     time.Time     // after the last answer with this mark
	watched  bool          // look shows it
	expiring bool          // a request to end it is under way
	dead     bool          // its mark has stood for its TTL once, and this program may not end it
}

// due returns when the session may be ended, or the next try.
func (p *peer) due() time.Time {
	if due := p.silence.Due(); p.retry.Before(due) {
		return due
	}
	return p.retry
}

// note notes the mark that an answer has shown, and ends the session if the mark has stood for its TTL. ttl is how long
// the mark still has to stand, in ms. now is a time after the answer came. note reports whether the mark has stood for
// its TTL and this program may not end the session.
func (d *driver) note(id string, mark, ttl int64, now time.Time) (dead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, shown := d.marks[id], strconv.FormatInt(mark, 10)
	switch {
	case p == nil:
		p = &peer{}
		d.marks[id] = p
	case p.silence.Mark() != shown:
		*p = peer{watched: p.watched, expiring: p.expiring}
	}
	p.left, p.last = time.Duration(ttl)*time.Millisecond, now
	p.silence.Note(shown, p.left, now)
	if p.silence.Left(now) == 0 && !now.Before(p.retry) && !p.expiring {
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
	case errors.Is(err, store.ErrDenied) && p.silence.Mark() == strconv.FormatInt(mark, 10): // a follower's role: the session's lease is over all the same
		p.dead = true
		p.pause = max(2*p.pause, p.left, d.config.TTL/8) // the right might be granted
		p.retry = p.due().Add(p.pause)
		d.watches.all = true
		d.link.wake()
	case err != nil:
		p.retry = p.due().Add(max(p.left, d.config.TTL/4) / 8)
		d.link.wake()
	}
}

// writeProofs writes for how long marks still have to stand, so that processes that come later count on from there: those
// that have stood for longer than the server keeps, by step at least. If that fails, it is only less that counts.
func (d *driver) writeProofs(ctx context.Context, step time.Duration) {
	var ids []string
	var marks, rests []int64
	proved := map[string]time.Duration{}
	d.mu.Lock()
	now := time.Now() // before the request is sent
	for id, p := range d.marks {
		left, ok := p.silence.Unproved(now, step)
		if !ok || p.expiring || p.dead || now.Sub(p.last) > d.config.TTL/2 {
			continue
		}
		mark, _ := strconv.ParseInt(p.silence.Mark(), 10, 64)
		rest := (left + time.Millisecond - 1).Milliseconds()
		ids, marks, rests, proved[id] = append(ids, id), append(marks, mark), append(rests, rest), left
	}
	if d.proving || len(ids) == 0 {
		d.mu.Unlock()
		return
	}
	d.proving = true
	d.mu.Unlock()
	_, _, err := query[nothing](ctx, d, d.requests, d.call("prove($1, $2, $3)"), ids, marks, rests)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proving = false
	for i, id := range ids {
		if p := d.marks[id]; p != nil && err == nil {
			p.silence.Proved(strconv.FormatInt(marks[i], 10), proved[id])
		}
	}
}

// forget drops what has not been shown for long: each mark that still matters is shown at least once in ttl, which is
// that of this driver. The caller holds mu.
func (m marks) forget(now time.Time, ttl time.Duration) {
	for id, p := range m {
		if now.Sub(p.last) > 2*max(p.left, ttl) && !p.expiring {
			delete(m, id)
		}
	}
}

// due returns when the next mark will have stood for its TTL, of the sessions that are watched; zero if there is none.
// The caller holds mu.
func (m marks) due() (at time.Time) {
	for _, p := range m {
		if t := p.due(); p.watched && !p.expiring && !p.dead && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

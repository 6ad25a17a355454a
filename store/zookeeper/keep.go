package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// A session is confirmed a TTL/6 after the last answer. While an answer takes longer than TTL/24, another confirmation is
// sent each TTL/24, so that a lease is renewed in time over a slow link (TestRenewalsComeInTime).
func pause(ttl time.Duration) time.Duration   { return ttl / 6 }
func spacing(ttl time.Duration) time.Duration { return ttl / 24 }

// patience is how long an answer may take: round trips are promised up to TTL/8, and a confirmation is written to disks.
// Then the connection is given up, and the next server might answer while the lease still holds (TestFrozenServerIsTheCause).
func patience(ttl time.Duration) time.Duration { return ttl / 5 }

// serve confirms the session until the connection ends, and says why it ends. Requests use the connection once its
// first confirmation has been answered: then no read of this connection is behind one of an earlier connection, and the
// ensemble's leader knows of the session. (A leader resumes a session by itself, even if another one has been elected.)
// before is the connection that requests used before.
func (l *link) serve(before *link) error {
	d := l.driver
	l.identity = l.identify()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.mu.Lock()
		changed, leaves := d.changed, d.refused != nil || l.session.ending
		useful := d.link != l && !l.confirmed.IsZero() && l.identity == nil
		d.mu.Unlock()
		due, late, oldest := l.next()
		switch now := time.Now(); {
		case leaves:
			return errLeft
		case l.wire.why() != nil:
			return l.wire.why()
		case oldest != nil && adapter.StoodStill(late):
			l.woke = now
			continue
		case oldest != nil && !now.Before(late):
			l.wire.end(l.silent())
			continue
		case !now.Before(due):
			l.sent = now
			l.under = append(l.under, confirmation{store.Now(), async(l, barrier)})
			continue
		case useful:
			l.use(before)
			continue
		}
		if oldest == nil || due.Before(late) {
			late = due
		}
		timer.Reset(time.Until(late))
		select {
		case r := <-l.identity:
			if l.identity = nil; r.err != nil {
				l.wire.end(r.err)
			}
		case r := <-oldest:
			l.take(r.err)
		case <-l.wire.ctx.Done():
		case <-timer.C:
		case <-changed:
		case <-d.lifecycle.Background.Done():
			return store.ErrClosed
		}
	}
}

// next returns when the next confirmation is due, and, if one is under way, when the server is late and the answer that comes
// first. An answer that came while this process stood still can be read before it is late.
func (l *link) next() (due, late time.Time, oldest <-chan result[struct{}]) {
	ttl := l.driver.config.TTL
	switch {
	case len(l.under) > 0:
		first := l.under[0]
		due, late, oldest = l.sent.Add(spacing(ttl)), first.sent.Time().Add(patience(ttl)), first.answer
		if read := l.woke.Add(adapter.Standstill); late.Before(read) {
			late = read
		}
	case !l.sent.IsZero():
		due = l.answered.Add(pause(ttl))
	}
	return due, late, oldest
}

// errStoodStill is why a connection is given up if the process stood still. The next connection is to the same server.
var errStoodStill = errors.New("this process stood still")

// take takes the answer to the oldest confirmation.
func (l *link) take(failed error) {
	c, now := l.under[0], time.Now()
	l.under, l.answered = l.under[1:], now
	switch {
	case failed != nil: // if the connection has failed, serve sees that
	case l.touches.silent(now):
		l.wire.end(fmt.Errorf("%w for more than %v", errStoodStill, silence(l.driver.config.TTL)))
	default:
		l.prove(c.sent, now)
		l.confirms(c.sent.Time())
	}
}

// prove renews the lease by a confirmation. The lease counts from an earlier touch. If that was the handshake, the lease begins
// only if it lasts until the next confirmation renews it.
func (l *link) prove(sent store.Instant, answered time.Time) {
	d, s := l.driver, l.session
	age, renewal := l.touches.add(touch{sent, answered})
	valid, trip := d.config.TTL-d.config.Grace-age, answered.Sub(sent.Time())
	d.set(func() {
		if l.confirmed.IsZero() {
			l.compare()
		}
		if begun := s.proof != (engine.Proof{}); begun || renewal || valid > 2*trip+pause(d.config.TTL)+spacing(d.config.TTL) {
			s.prove(engine.Proof{Sent: sent, Valid: valid, Connection: l.watches.number})
		}
	})
}

// confirms records that a barrier which was sent at a time has been answered.
func (l *link) confirms(sent time.Time) {
	l.driver.set(func() {
		if sent.After(l.confirmed) {
			l.confirmed = sent
		}
	})
	l.watches.confirmed(sent)
}

// use lets requests use the connection. First it ends the watches of the connection before, so that the engine reads what
// they have missed.
func (l *link) use(before *link) {
	if before != nil {
		before.watches.end()
	}
	d := l.driver
	d.set(func() { d.link, d.trouble, l.session.useless = l, nil, time.Time{} })
}

// silent is why a connection is given up whose server does not answer.
func (l *link) silent() error {
	return fmt.Errorf("the server has not answered for %v", patience(l.driver.config.TTL))
}

// identify adds the digest identity to the connection, with the password of the moment. While there is none, the
// connection confirms the session, and no request uses it.
func (l *link) identify() <-chan result[struct{}] {
	d := l.driver
	if d.config.User == "" {
		return nil
	}
	return async(l, func(conn *zk.Conn) (struct{}, error) {
		var retries adapter.Retries
		for l.works() && d.lifecycle.Background.Err() == nil {
			ctx, cancel := context.WithTimeout(d.lifecycle.Background, d.limit())
			password, err := d.config.PasswordFunc(ctx)
			cancel()
			if err == nil {
				defer time.AfterFunc(patience(d.config.TTL), func() { l.wire.end(l.silent()) }).Stop()
				return struct{}{}, conn.AddAuth("digest", []byte(d.config.User+":"+password))
			}
			d.set(func() { d.trouble, l.session.useless = err, time.Time{} })
			retries.PauseOr(d.lifecycle.Background, l.wire.ctx.Done())
		}
		return struct{}{}, zk.ErrConnectionClosed
	})
}

// barrier is answered by a quorum of the ensemble, behind all that was committed before it: a transaction that changes
// nothing. A Sync is not enough: a leader of the ensemble that has lost the others answers a Sync for some ticks more,
// and they might have elected another leader (TestEnsemble).
func barrier(c *zk.Conn) (struct{}, error) {
	_, err := c.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if errors.Is(err, zk.ErrNoAuth) { // the refusal has gone through the quorum
		err = nil
	}
	return struct{}{}, err
}

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

// keeper confirms the session of a connection. All of its state is that of the goroutine which runs serve.
type keeper struct {
	*link
	touches  touches
	identity <-chan result[struct{}] // the answer to identify; nil once the answer has come
	under    []confirmation          // confirmations without an answer, the oldest first
	sent     time.Time               // when the last confirmation was sent
	answered time.Time               // when the last answer came
	woke     time.Time               // when an answer was noticed to be late because this process had stood still
}

// confirmation is a barrier under way.
type confirmation struct {
	sent   store.Instant
	answer <-chan result[struct{}]
}

// serve confirms the session until the connection ends, and says why it ends. Requests use the connection once its
// first confirmation has been answered: then no read of this connection is behind one of an earlier connection, and the
// ensemble's leader knows of the session. (A leader resumes a session by itself, even if another one has been elected.)
// before is the connection that requests used before.
func (l *link) serve(before *link) error {
	d := l.driver
	k := &keeper{link: l, identity: l.identify()}
	k.touches = touches{ttl: d.config.TTL, grace: d.config.Grace, list: []touch{{sent: l.opened}}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.mu.Lock()
		changed, used, leaves := d.changed, d.link == l, d.refused != nil || l.session.ending
		confirmed, identified := !l.confirmed.IsZero(), l.identified
		d.mu.Unlock()
		due, late, oldest := k.next(identified)
		switch now := time.Now(); {
		case leaves:
			return errLeft
		case l.wire.why() != nil:
			return l.wire.why()
		case !late.IsZero() && adapter.StoodStill(late):
			k.woke = now
			continue
		case !late.IsZero() && !now.Before(late):
			return l.give(fmt.Errorf("the server has not answered for %v", patience(d.config.TTL)))
		case !now.Before(due):
			k.sent = now
			k.under = append(k.under, confirmation{store.Now(), async(l, barrier)})
			continue
		case !used && confirmed && k.identity == nil:
			l.use(before)
			continue
		}
		if late.IsZero() || due.Before(late) {
			late = due
		}
		timer.Reset(time.Until(late))
		select {
		case r := <-k.identity:
			if err := k.takeIdentity(r.err); err != nil {
				return l.give(err)
			}
		case r := <-oldest:
			if err := k.take(r.err); err != nil {
				return l.give(err)
			}
		case <-l.down:
			l.wire.end(errLeft) // if that has no reason yet
		case <-timer.C:
		case <-changed:
		case <-d.lifecycle.Background.Done():
			return store.ErrClosed
		}
	}
}

// next returns when the next confirmation is due, when the server is late (zero if nothing is under way), and the answer
// that comes first. identified is when the identity was sent. An answer that came while this process stood still can be read
// before it is late.
func (k *keeper) next(identified time.Time) (due, late time.Time, oldest <-chan result[struct{}]) {
	ttl := k.driver.config.TTL
	switch {
	case len(k.under) > 0:
		since := k.under[0].sent.Time()
		due, late, oldest = k.sent.Add(spacing(ttl)), since.Add(patience(ttl)), k.under[0].answer
	case !k.sent.IsZero():
		due = k.answered.Add(pause(ttl))
	}
	if answer := identified.Add(patience(ttl)); k.identity != nil && !identified.IsZero() && (late.IsZero() || answer.Before(late)) {
		late = answer
	}
	if read := k.woke.Add(adapter.Standstill); !late.IsZero() && late.Before(read) {
		late = read
	}
	return due, late, oldest
}

// errStoodStill is why a connection is given up if the process stood still. The next connection is to the same server.
var errStoodStill = errors.New("this process stood still")

// take takes the answer to the oldest confirmation.
func (k *keeper) take(failed error) error {
	c, now := k.under[0], time.Now()
	k.under, k.answered = k.under[1:], now
	switch {
	case failed != nil: // if the connection has failed, serve sees that
		return nil
	case k.touches.silent(now):
		return fmt.Errorf("%w for more than %v", errStoodStill, silence(k.driver.config.TTL))
	}
	age, renewal := k.touches.add(touch{c.sent, now})
	k.confirm(c.sent, now, age, renewal)
	k.watches.confirmed(c.sent.Time())
	return nil
}

// confirm records a confirmation. The lease counts from a touch that was sent earlier by age. renewal says whether that
// touch was a confirmation. If it was the handshake, the lease begins only if it lasts until the next confirmation renews it.
func (l *link) confirm(sent store.Instant, answered time.Time, age time.Duration, renewal bool) {
	d, s := l.driver, l.session
	valid, trip := d.config.TTL-d.config.Grace-age, answered.Sub(sent.Time())
	d.set(func() {
		if l.confirmed.IsZero() {
			l.compare()
		}
		if l.confirmed.Before(sent.Time()) {
			l.confirmed = sent.Time()
		}
		if begun := s.proof != (engine.Proof{}); begun || renewal || valid > 2*trip+pause(d.config.TTL)+spacing(d.config.TTL) {
			s.prove(engine.Proof{Sent: sent, Valid: valid, Connection: l.watches.number})
		}
	})
}

// use lets requests use the connection. First it ends the watches of the connection before, so that the engine reads what
// they have missed.
func (l *link) use(before *link) {
	if before != nil {
		before.watches.end()
	}
	l.driver.set(func() { l.driver.link = l })
}

// give gives the connection up for a reason.
func (l *link) give(why error) error {
	l.wire.end(why)
	return why
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
				d.set(func() { l.identified = time.Now() })
				return struct{}{}, conn.AddAuth("digest", []byte(d.config.User+":"+password))
			}
			d.set(func() { d.trouble = err })
			retries.PauseOr(d.lifecycle.Background, l.down)
		}
		return struct{}{}, zk.ErrConnectionClosed
	})
}

// takeIdentity notes the answer to identify. After a denial the server closes the connection, and the next one has the password
// of that moment. The handshake of each has prolonged the session, so after a TTL of denials the session is given up: its
// ballots would block others for good. Any other error is that of the connection.
func (k *keeper) takeIdentity(err error) error {
	d := k.driver
	k.identity = nil
	denied := errors.Is(err, store.ErrDenied)
	if denied {
		err = fmt.Errorf("%w: the server refuses the identity of user %q", store.ErrDenied, d.config.User)
	}
	if err == nil || denied {
		d.set(func() {
			if d.denied = err; err == nil {
				k.session.denied = time.Time{}
			} else if k.session.denied.IsZero() {
				k.session.denied = time.Now()
			} else if d.current == k.session && time.Since(k.session.denied) > d.config.TTL {
				d.lose(err)
			}
		})
	} else if k.wire.why() != nil { // which says more
		return nil
	}
	return err
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

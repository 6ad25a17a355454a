package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// session is what the driver knows of a session. It implements engine.Session. The driver confirms it from the first
// connection on, see keeper, and takes from the confirmations how long it certainly lives, see touches. The engine has
// it from Open on.
type session struct {
	driver *driver
	id     int64         // constant
	lost   chan struct{} // closed when the driver learns that the session is over, or gives it up
	left   error         // written before lost is closed: why it was given up; nil if it is known to be over

	touches touches            // guarded by the driver's mu, as are all below
	since   store.Instant      // when the present connection's handshake was sent
	proof   engine.Proof       // the last; zero before the first
	renewed func(engine.Proof) // Keep's; nil while it does not run
	opened  bool               // the engine has it

	kept error // what Keep returned; of the engine's keeper alone

	creations sync.Map // of *creation, by nonce: those whose outcome the engine does not know
}

// ID implements engine.Session.
func (s *session) ID() string { return sessionName(s.id) }

func sessionName(id int64) string { return strconv.FormatUint(uint64(id), 16) }

// await waits until requests can be sent in the session, and says why not if it is over.
func (s *session) await(ctx context.Context) error {
	d := s.driver
	return d.until(ctx, func() (bool, error) {
		switch {
		case d.current == s:
			return d.authenticated, nil
		case s.left == nil:
			return false, engine.ErrOver
		}
		return false, fmt.Errorf("%w: %w", store.ErrUnavailable, s.left)
	})
}

// begun reports whether the session has been proved before, or a confirmation proves it by another touch than the handshake.
// age is by how much earlier that touch was sent. The caller holds the driver's mu.
func (s *session) begun(age time.Duration, confirmed store.Instant) bool {
	return s.proof != (engine.Proof{}) || age != s.since.Since(confirmed.Time())
}

// prove notes that the session stands. The caller holds the driver's mu.
func (s *session) prove(sent store.Instant, valid time.Duration) {
	s.proof = engine.Proof{Sent: sent, Valid: valid}
	if s.renewed != nil {
		s.renewed(s.proof)
	}
}

// Keep implements engine.Session. The keeper of the driver confirms the session, also while it is not called.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	d.mu.Lock()
	s.renewed = renewed
	if s.proof != (engine.Proof{}) {
		renewed(s.proof)
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		s.renewed = nil
		d.mu.Unlock()
	}()
	select {
	case <-s.lost:
		s.kept = s.left
	case <-ctx.Done():
		s.kept = context.Cause(ctx)
	}
	return s.kept
}

// errLater says that the request to end the session follows.
var errLater = engine.Answered(fmt.Errorf("%w: the next handshake ends it", store.ErrUnavailable))

// errAbandoned is why the connection of a session that was given up is cut.
var errAbandoned = errors.New("the session is being ended")

// End implements engine.Session. The next handshake resumes the session and is followed by the request to end it. So the
// next session begins when nothing is left of this one. If no server can be reached, the session is over after its timeout. When the store is closed, closing the connection ends it.
func (s *session) End(context.Context, []engine.Removal) error {
	d := s.driver
	if errors.Is(s.kept, adapter.ErrClosed) {
		return nil
	}
	d.set(func() {
		d.leaving, d.ending = s.id, true
		if d.current == s {
			d.lose(errAbandoned)
		}
	})
	d.cut(errAbandoned)
	return errLater
}

// established is called by the wire when a server has answered the handshake: id is the session's, 0 if the one we
// asked for has expired, and resumed says whether it is the one we asked for. It must not block. The watches of the
// connection before are over before the library reads what the new one tells.
func (d *driver) established(id int64, resumed bool, ttl time.Duration, sent store.Instant) {
	d.hosts.answered(id == 0 && !resumed)
	d.set(func() {
		d.unanswered = time.Time{}
		known := d.current != nil && d.current.id == id
		switch {
		case id == 0:
			d.lose(nil)
			d.leaving, d.ending = 0, false
		case id == d.leaving: // it is being ended
		case ttl < d.config.TTL || ttl > d.config.TTL && !known: // more is no harm to a session that was granted less
			// The ensemble might end the session before the lease ends, or already counts a shorter TTL. The session is
			// over for this store; keep closes the connection, so that its ballots go and no other waits for them.
			d.refused = adapter.Refuse("ttl", d.config.TTL.String(), "the ensemble grants %v instead", ttl)
			d.lose(d.refused)
		default:
			d.adopt(id)
			d.begin(resumed, sent)
		}
	})
	d.watches.reconnected()
}

// begin takes the session into use on a connection whose handshake was sent then, and has just been answered. A quorum
// makes a new session. The ensemble's leader resumes one by itself, even if another one has been elected that it has not
// heard of: so a confirmation has to come before that counts. The caller holds mu.
func (d *driver) begin(resumed bool, sent store.Instant) {
	sess, valid := d.current, d.config.TTL-d.config.Grace
	d.ready = time.Now()
	d.trip = d.ready.Sub(sent.Time())
	sess.since = sent
	sess.touches.reset(sent)
	if !resumed && d.renewedInTime() {
		sess.prove(sent, valid)
	}
}

// renewedInTime reports whether a lease that counts from the present connection's handshake lasts until it is renewed. The
// second confirmation is the first to renew it: see touches. If that comes too late, the lease would end soon after it has
// begun. The caller holds mu.
func (d *driver) renewedInTime() bool {
	ttl := d.config.TTL
	return 3*d.trip+interval(ttl)+ttl/24 < ttl-d.config.Grace
}

// giveUp gives up the session if servers have left all handshakes of more than a TTL without an answer. Each might have
// prolonged it; or the service has been set back to an earlier state, refuses who has seen a later one, and has ballots
// again that were withdrawn. It reports whether the next handshake need not insist on what was seen.
func (d *driver) giveUp() (forget bool) {
	d.set(func() {
		if !d.unanswered.IsZero() && time.Since(d.unanswered) > d.config.TTL {
			d.abandon(fmt.Errorf("no handshake was answered for %v", d.config.TTL))
		}
		forget = d.current == nil
	})
	return forget
}

// adopt makes id the current session. The caller holds mu.
func (d *driver) adopt(id int64) {
	if d.current != nil && d.current.id == id {
		return
	}
	d.lose(nil)
	d.confirmed = time.Time{}
	d.current = &session{
		driver: d, id: id, lost: make(chan struct{}),
		touches: touches{ttl: d.config.TTL, grace: d.config.Grace},
	}
}

// lose forgets the session: it is over, or given up for the reason given. The caller holds mu.
func (d *driver) lose(left error) {
	if d.current != nil {
		d.current.left = left
		close(d.current.lost)
		d.current = nil
	}
}

// abandon gives up the session. It is ended when the engine asks for that, and so has ended the lease; at once if the
// engine does not have it. The caller holds mu.
func (d *driver) abandon(reason error) {
	if d.current != nil {
		d.leaving, d.ending = d.current.id, !d.current.opened
		d.lose(reason)
	}
}

// until waits for a condition. It is asked under mu, now and at each change.
func (d *driver) until(ctx context.Context, holds func() (bool, error)) error {
	for {
		d.mu.Lock()
		done, err := holds()
		changed := d.changed
		d.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return d.unreached(ctx)
		}
	}
}

// await returns the session as soon as there is one and the connection is authenticated.
func (d *driver) await(ctx context.Context) (sess *session, err error) {
	err = d.until(ctx, func() (bool, error) {
		sess = d.current
		return sess != nil && d.authenticated && d.refused == nil, d.refused
	})
	return sess, err
}

// unreached says why nothing came before ctx ended.
func (d *driver) unreached(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	up := d.upLocked()
	what := "no session"
	switch {
	case d.current != nil && up:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	case d.current != nil:
		what = "no connection"
	case d.leaving != 0 && !d.ending:
		return errKept
	}
	if d.trouble != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, what, d.trouble)
	}
	return fmt.Errorf("%w: %s", store.ErrUnavailable, what)
}

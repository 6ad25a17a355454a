package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
)

// How a session is confirmed, and why the lease is safe.
//
// A server ends a session twice its TTL T after it was created or last renewed at the server that leads; one that
// begins to lead starts all timers anew. The lease lasts T from when a renewal was sent, less the grace, but a renewal
// alone proves little: it is answered from memory, without asking the other servers, even if the server does not lead
// any more, or if the timer has run out and the session is about to be ended. Therefore
//
//   - a renewal counts once a consistent read that was sent with it has found the session: the server that leads had
//     the session when the lease began;
//   - it counts only if the answer came within T of when the last one that counted was sent. Since timers run for 2T,
//     none can have run out before; later than that the session is given up, and destroyed. In which order
//     confirmations arrive, and how many are under way, makes no difference to this.
//
// Let a server begin to lead at time t, and its timers run until t + 2T at least. A lease from a renewal sent before t
// ends before t + T. So for a lease to be wrong, servers that do not lead any more have to answer all renewals until t
// + T, while another server answers each read. A server finds out that it was deposed within its raft lease, half a
// second by default times the raft_multiplier, or in its first instructions after a pause. What it answers then in one
// moment m was sent before m, and m is less than T behind a renewal that was answered before the pause.
//
// Below 10 s the session is bound to a TTL check, whose timer runs at the agent and only there, for exactly T from the
// last pass that the agent received. Once it has run out, the agent tells its servers, and a pass that comes too late
// does not call that back. So a pass counts if it was answered within T of when one that counts was sent: then the
// timer has not run out. The session's own TTL of 10 s is renewed besides, in case the agent dies or is cut off, and no
// agent is left to turn the check critical.
//
// With round trips R and grace G, a confirmation sent at s is answered at s + R, and the next one is sent at s + T/4.
// So the lease goes on as long as T/4 + R < T - G. At the start the check is registered, the session created and the
// first confirmation answered after 3R, which has to be less than T; the first lease begins if 2R < T - G.

// keeper confirms the session until the store is closed: by one confirmation each TTL/4, whether or not the one before
// has been answered, so that a lease is renewed as often over a slow link. All of its state is that of the goroutine
// that runs keep.
type keeper struct {
	*Store
	session *session           // the present one, as of the last step; nil if there is none
	under   []*confirmation    // of it, those that have not been answered yet, the oldest first
	next    time.Time          // when the next one must be sent
	answers chan *confirmation // all of them
}

// mostUnderWay is how many confirmations are under way at most: those of a TTL.
const mostUnderWay = 4

// keep confirms the session, and lets the watches be looked after, until the store is closed.
func (s *Store) keep() {
	k := &keeper{Store: s, answers: make(chan *confirmation), next: time.Now().Add(s.config.TTL / 4)}
	for {
		timer := time.NewTimer(k.step())
		select {
		case <-timer.C:
		case <-s.opened:
		case <-s.due:
			k.next = time.Now()
		case c := <-k.answers:
			k.take(c)
		case <-s.life.Background.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// step does what is due, and returns the time until something else is.
func (k *keeper) step() time.Duration {
	ttl := k.config.TTL
	if k.life.Calls.Err() != nil {
		return ttl // Close has ended the lease
	}
	if sess := k.Store.session(); sess != k.session {
		k.session, k.under = sess, nil
		if sess != nil {
			k.next = sess.sent.Time().Add(ttl / 4)
		}
	}
	due := !time.Now().Before(k.next)
	if k.session == nil {
		if due {
			k.next = time.Now().Add(ttl / 4)
			k.lookSoon()
		}
		return time.Until(k.next)
	}
	left := ttl - k.session.sent.Since(time.Now())
	if left <= 0 {
		k.giveUp(nil)
		return 0
	}
	if silent := k.leaveSilent(); (due || silent) && len(k.under) < mostUnderWay {
		k.send()
	}
	if len(k.under) < mostUnderWay {
		left = min(left, time.Until(k.next))
	}
	if c := k.waiting(); c != nil {
		left = min(left, ttl/3-time.Since(c.sent.Time()))
	}
	return max(left, time.Millisecond)
}

// send sends a confirmation.
func (k *keeper) send() {
	sess := k.session
	c := &confirmation{
		session: sess, sent: store.Now(), renews: sess.check == "" || time.Since(sess.renewed) >= leastSessionTTL/4,
	}
	k.under = append(k.under, c)
	k.next = c.sent.Time().Add(k.config.TTL / 4)
	k.life.Go(func() {
		c.run(k.life.Background, k.Store)
		select {
		case k.answers <- c:
		case <-k.life.Background.Done():
		}
	})
}

// leaveSilent leaves the agent if it has not answered a confirmation for TTL/3: the next one goes to another agent, if
// the store knows one. It reports whether it did so.
func (k *keeper) leaveSilent() bool {
	if c := k.waiting(); c == nil || time.Since(c.sent.Time()) < k.config.TTL/3 {
		return false
	}
	for _, c := range k.under {
		c.left = true
	}
	if k.lines != nil {
		k.dialer.silent()
		k.lines.kept.CloseIdleConnections()
	}
	return true
}

// waiting returns the oldest confirmation under way whose agent has not been left; nil if there is none.
func (k *keeper) waiting() *confirmation {
	for _, c := range k.under {
		if !c.left {
			return c
		}
	}
	return nil
}

// take takes the answers to a confirmation.
func (k *keeper) take(c *confirmation) {
	s, sess := k.Store, c.session
	i := slices.Index(k.under, c)
	if i < 0 || sess != s.session() {
		return
	}
	k.under = slices.Delete(k.under, i, i+1)
	if c.renews && c.renewed == nil {
		sess.renewed = c.sent.Time()
	}
	err := s.explain(context.Background(), c.err()) // an agent that did not answer in time has been left
	s.mu.Lock()
	s.trouble = err
	s.mu.Unlock()
	if err != nil && store.Refused(err) != sess.denied {
		if sess.denied = !sess.denied; sess.denied {
			s.config.Logger.Warn("the session can't be renewed", "store", s.life.Name, "error", err)
		}
	}
	switch {
	case s.life.Calls.Err() != nil: // Close has ended the lease
	case errors.Is(err, errEnded), errors.Is(err, errUnchecked):
		s.abandon(sess, err)
	case err != nil && refusing(err):
		s.abandon(sess, fmt.Errorf("the agent is gone: %w", err))
	case sess.sent.Since(c.answered) >= s.config.TTL:
		k.giveUp(err)
	case err != nil:
		if again := time.Now().Add(50 * time.Millisecond); again.Before(k.next) {
			k.next = again
		}
	default:
		if c.sent.Time().After(sess.sent.Time()) {
			sess.sent = c.sent
		}
		sess.lease.Renew(c.sent, s.config.TTL-s.config.Grace)
		if s.settled() {
			s.told(c.sent.Time())
		}
		s.lookSoon()
	}
}

// giveUp gives the session up, which might have ended: no confirmation has counted for a TTL.
func (k *keeper) giveUp(err error) {
	if err == nil {
		err = errors.New("the answer is late")
	}
	k.abandon(k.session, fmt.Errorf("not confirmed for longer than the ttl %v: %w", k.config.TTL, err))
}

// lookSoon lets look look at watches, unless it is at it.
func (s *Store) lookSoon() {
	if s.looking.TryLock() && !s.life.Go(func() { defer s.looking.Unlock(); s.look() }) {
		s.looking.Unlock()
	}
}

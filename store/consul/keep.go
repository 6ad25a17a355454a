package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
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
// first confirmation answered after 3R, which has to be less than T; the first lease begins if 2R < T - G. With several
// addresses a confirmation ends after T/3, see patience: then R < T/3 besides.
//
// This needs a connection for each kind of request, see connections in package agent. If R grows from almost nothing while
// the session is kept, the requests of the first slow confirmation find theirs idle. Those sent at s + T/4 get theirs at
// s + R, or at once if R < T/4, and their answers at s + 2R, while the lease from s lasts until s + T - G: so 2R < T - G.
// With several addresses they end at s + T/4 + T/3: so 2R < 7/12 T besides. If a request had to open a connection first, it
// would be answered 2R after it was sent. So the lease would go on only as long as T/4 + 2R < T - G, and with several
// addresses 2R < T/3 besides. A round trip of T/4 misses both with the default grace of T/3.

// keeper confirms a session: by one confirmation each TTL/4, whether or not the one before has been answered, so that one
// that hangs does not cost the lease (TestConfirmationHangs). All of its state is that of the goroutine that runs Keep.
type keeper struct {
	*driver
	session *session
	renew   func(engine.Proof)
	under   int                // how many have not been answered yet
	pause   time.Duration      // after the last one that failed; zero if it did not
	next    time.Time          // when the next one must be sent
	answers chan *confirmation // all of them
}

// mostUnderWay is how many confirmations are under way at most: those of a TTL. The session can be in doubt more often than
// that (TestDoubtsAreBounded).
const mostUnderWay = 4

// Keep implements engine.Session.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.life.Go(func() {
		d.client.WatchSession(ctx, s.id, d.confirmNow, func() { d.sweepRevived(ctx, s) })
	})
	k := &keeper{driver: d, session: s, renew: renewed, answers: make(chan *confirmation)}
	k.next = s.sent.Time().Add(d.config.TTL / 4)
	err := k.run(ctx)
	if errors.Is(err, errEnded) || s.ended.Load() { // else the engine calls End
		s.letGo()
		return nil
	}
	return err
}

// run returns why the session is given up, or errEnded.
func (k *keeper) run(ctx context.Context) error {
	for {
		left := k.config.TTL - k.session.sent.Since(time.Now())
		if left <= 0 {
			return k.late(nil)
		}
		if k.under < mostUnderWay {
			if !time.Now().Before(k.next) {
				k.send(ctx)
			}
			left = min(left, time.Until(k.next))
		}
		var err error
		select {
		case <-time.After(left):
		case <-k.due:
			k.next = time.Now()
		case c := <-k.answers:
			err = k.take(c)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// send sends a confirmation.
func (k *keeper) send(ctx context.Context) {
	sess := k.session
	c := &confirmation{
		session: sess, sent: store.Now(), renews: sess.check == "" || time.Since(sess.renewed) >= leastSessionTTL/4,
	}
	k.under++
	k.next = c.sent.Time().Add(k.config.TTL / 4)
	k.life.Go(func() {
		c.run(k.life.Background, k.driver)
		select {
		case k.answers <- c:
		case <-ctx.Done():
		}
	})
}

// take takes the answers to a confirmation, and returns an error if the session is over.
func (k *keeper) take(c *confirmation) error {
	d, sess := k.driver, c.session
	k.under--
	if c.renews && c.renewed == nil {
		sess.renewed = c.sent.Time()
	}
	err := c.err()
	if !errors.Is(err, errEnded) && !errors.Is(err, errUnchecked) {
		err = d.client.Explain(err)
	}
	if err != nil && store.Refused(err) != sess.denied {
		if sess.denied = !sess.denied; sess.denied {
			d.life.Go(func() { d.config.Logger.Warn("the session can't be renewed", "store", d.life.Name, "error", err) }) // the handler might hang
		}
	}
	switch {
	case errors.Is(err, errEnded), errors.Is(err, errUnchecked):
		return err
	case err != nil && agent.Refusing(err):
		return fmt.Errorf("the agent is gone: %w", err)
	case sess.sent.Since(c.answered) >= d.config.TTL:
		return k.late(err)
	case err != nil:
		k.pause = min(max(50*time.Millisecond, 2*k.pause), 400*time.Millisecond)
		if again := time.Now().Add(k.pause); again.Before(k.next) {
			k.next = again
		}
	default:
		k.pause = 0
		if c.sent.Time().After(sess.sent.Time()) {
			sess.sent = c.sent
		}
		k.renew(d.proof(c.sent))
	}
	return nil
}

// late says that the session might have ended: no confirmation has counted for a TTL.
func (k *keeper) late(err error) error {
	if err == nil {
		err = errors.New("no answer in time")
	}
	return fmt.Errorf("not confirmed for longer than the ttl %v: %w", k.config.TTL, err)
}

var (
	errEnded     = errors.New("the session has ended")
	errUnchecked = errors.New("the session's check was deregistered")
)

// confirmation is one try to confirm a session.
type confirmation struct {
	session *session
	sent    store.Instant // before its requests
	renews  bool          // the session itself, as against its check

	passed, renewed, proved error     // what came of the requests
	answered                time.Time // when the last of their answers came
}

// patience returns how long an agent may take to answer a confirmation. Then it is left (TestNextAgent). The only one has
// as long as the lease lasts: later confirmations open connections by themselves if those under way are silent, and to open
// all anew costs a round trip (TestLoneAgentIsLate).
func (d *driver) patience() time.Duration {
	if len(d.config.Addresses) > 1 {
		return d.config.TTL / 3
	}
	return d.config.TTL - d.config.Grace
}

// run sends the requests of a confirmation at the same time, and waits for all answers.
func (c *confirmation) run(ctx context.Context, d *driver) {
	ctx, cancel := context.WithTimeout(ctx, d.patience())
	defer cancel()
	sess := c.session
	var requests sync.WaitGroup
	if sess.check != "" {
		requests.Go(func() { c.passed = d.pass(ctx, sess.check) })
	}
	if c.renews {
		requests.Go(func() { c.renewed = d.renew(ctx, sess.id) })
	}
	if c.proved = d.prove(ctx, sess); errors.Is(c.proved, errEnded) {
		cancel() // whatever the others say
	}
	requests.Wait()
	c.answered = time.Now()
}

// err returns what kept the session from being confirmed.
func (c *confirmation) err() error {
	sess := c.session
	if errors.Is(c.proved, errEnded) {
		return c.proved
	}
	switch {
	case c.passed == nil:
		sess.unknown = false
	case agent.NotFound(c.passed) && sess.unknown:
		return errUnchecked
	case agent.NotFound(c.passed): // perhaps not the agent's words: ask again
		sess.unknown = true
		return c.passed
	}
	switch {
	case c.passed != nil:
		return c.passed
	case agent.NotFound(c.renewed) && c.proved == nil:
		return errNoSession
	case c.renewed != nil:
		return c.renewed
	}
	return c.proved
}

// errNoSession says that a renewal was answered as if there were no session, which a read has found.
var errNoSession = agent.Odd("a renewal was answered as if there were no session")

// renew renews the session itself.
func (d *driver) renew(ctx context.Context, id string) error {
	var renewed []api.SessionEntry
	_, err := d.client.Raw().Write("/v1/session/renew/"+id, nil, &renewed, d.client.WriteOptions(ctx))
	if err == nil && (len(renewed) == 0 || renewed[0].ID != id) {
		return errNoSession
	}
	return err
}

// pass passes the check. The agent's answer has no content.
func (d *driver) pass(ctx context.Context, check string) error {
	var content any
	_, err := d.client.Raw().Write("/v1/agent/check/update/"+check, map[string]string{"Status": api.HealthPassing}, &content, d.client.WriteOptions(ctx))
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return agent.Odd("the pass of a check was answered with content")
	}
	return err
}

// prove finds out whether the session stands.
func (d *driver) prove(ctx context.Context, sess *session) error {
	info, meta, err := d.client.Session().Info(sess.id, d.client.Consistent(ctx))
	if err = agent.FromAgent(meta, err); err == nil && info == nil {
		return errEnded
	}
	return err
}

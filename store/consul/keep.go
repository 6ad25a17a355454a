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
//     none can have run out before; later than that the session is given up, and destroyed.
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
// A confirmation is sent every T/4. Each of its requests may take T/4 from when it is sent on an open connection; if it
// could go to another agent instead, T/6. After a failure the next one is sent at once, to the next agent, and each request
// may take T/4. So with a grace of T/3, after an agent has fallen silent, the answer of the next one counts from T/4 + T/6 +
// 50 ms after the last confirmation that counted, with a connection to be opened first: in time for the lease at round trips
// up to T/24. Answers that come steadily keep the lease at round trips up to T/8, even if each needs a connection first.

// Keep implements engine.Session.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	err := s.confirmAll(ctx, renewed)
	if errors.Is(err, errEnded) || s.ended.Load() { // else the engine calls End
		s.letGo()
		return nil
	}
	return err
}

// confirmAll confirms the session again and again. It returns why the session is given up, or errEnded.
func (s *session) confirmAll(ctx context.Context, renewed func(engine.Proof)) error {
	ttl := s.driver.config.TTL
	next, pause := s.sent.Time().Add(ttl/4), time.Duration(0)
	for {
		select {
		case <-time.After(time.Until(next)):
		case <-s.driver.due:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c, err := s.confirm(ctx, s.driver.patience(pause > 0))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errEnded), errors.Is(err, errUnchecked):
			return err
		case err != nil && agent.Refusing(err):
			return fmt.Errorf("the agent is gone: %v", err)
		case s.sent.Since(time.Now()) >= ttl:
			return late(ttl, err)
		case err != nil:
			s.connection.Add(1)
			pause = min(max(50*time.Millisecond, 2*pause), 400*time.Millisecond)
			next = time.Now().Add(pause)
		default:
			s.sent, pause = c.sent, 0
			next = c.sent.Time().Add(ttl / 4)
			renewed(s.proof(c.sent))
		}
	}
}

// patience returns how long an agent may take to answer a request of a confirmation. A single agent can't be left, and
// after a failure an agent has time for a slow answer: answers that are all slow must not end each session (TestNextAgent,
// TestSteadyAnswers).
func (d *driver) patience(failed bool) time.Duration {
	if len(d.config.Addresses) > 1 && !failed {
		return d.config.TTL / 6
	}
	return d.config.TTL / 4
}

// late says that the session might have ended: no confirmation has counted for a TTL.
func late(ttl time.Duration, err error) error {
	if err == nil {
		err = errors.New("no answer in time")
	}
	return fmt.Errorf("not confirmed for longer than the ttl %v: %v", ttl, err) // in words: a ballot that is lost is not in doubt
}

var (
	errEnded     = errors.New("the session has ended")
	errUnchecked = errors.New("the session's check was deregistered")
)

// confirmation is one try to confirm a session.
type confirmation struct {
	session *session
	sent    store.Instant // before its requests

	passed, renewed, proved error // what came of the requests
}

// confirm sends the requests of a confirmation at the same time, waits for all answers, and returns what kept the session
// from being confirmed. With a check, the session
// itself is renewed as often as it needs.
func (s *session) confirm(ctx context.Context, limit time.Duration) (*confirmation, error) {
	d := s.driver
	ctx, cancel := context.WithTimeout(ctx, d.config.TTL-s.sent.Since(time.Now()))
	defer cancel()
	c := &confirmation{session: s, sent: store.Now()}
	within := func(request func(context.Context, string) error, id string) error {
		ctx, cancel := agent.Within(ctx, limit)
		defer cancel()
		return request(ctx, id)
	}
	var requests sync.WaitGroup
	if s.check != "" {
		requests.Go(func() { c.passed = within(d.pass, s.check) })
	}
	renews := s.check == "" || time.Since(s.renewed) >= leastSessionTTL/4
	if renews {
		requests.Go(func() { c.renewed = within(d.renew, s.id) })
	}
	if c.proved = within(d.prove, s.id); errors.Is(c.proved, errEnded) {
		cancel() // whatever the others say
	}
	requests.Wait()
	if renews && c.renewed == nil {
		s.renewed = c.sent.Time()
	}
	err := c.err()
	if !errors.Is(err, errEnded) && !errors.Is(err, errUnchecked) {
		err = d.client.Explain(err)
	}
	if err != nil && store.Refused(err) != s.denied {
		if s.denied = !s.denied; s.denied {
			d.life.Go(func() { d.config.Logger.Warn("the session can't be renewed", "store", d.life.Name, "error", err) }) // the handler might hang
		}
	}
	return c, err
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
func (d *driver) prove(ctx context.Context, id string) error {
	info, meta, err := d.client.Session().Info(id, d.client.Consistent(ctx))
	if err = agent.FromAgent(meta, err); err == nil && info == nil {
		return errEnded
	}
	return err
}

package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// How a session is confirmed, and why the lease is safe.
//
// A server ends a session twice its TTL T after the session was created or last renewed at the server that leads. A server
// that begins to lead starts all timers anew. The lease lasts T from when a renewal was sent, less the grace. But a renewal
// alone proves little: a server answers it from memory, without asking the other servers, even if it does not lead any
// more, or if the timer has run out and the session is about to end. Therefore
//
//   - a renewal counts once a consistent read that was sent with the renewal has found the newest ballot of the session that
//     is not being removed, or the session if there is none: the server that leads had the session, and all its ballots, when
//     the lease began;
//   - a renewal counts only if the answer came within T of when the last renewal that counted was sent. Since timers run
//     for 2T, no timer can have run out before. Later than that the session is given up, and destroyed.
//
// Let a server begin to lead at time t, and its timers run until t + 2T at least. A lease from a renewal sent before t
// ends before t + T. So for a lease to be wrong, servers that do not lead any more have to answer all renewals until t
// + T, while another server answers each read. A server finds out that it was deposed within its raft lease, half a
// second by default times the raft_multiplier, or in its first instructions after a pause. What it answers then in one
// moment m was sent before m, and m is less than T behind a renewal that was answered before the pause.
//
// Below 10 s the session is bound to a TTL check, whose timer runs at the agent and only there, for exactly T from the
// last pass that the agent received. Once the timer has run out, the agent tells its servers, and a pass that comes too
// late does not call that back. So a pass counts if it was answered within T of when the last pass that counted was sent:
// then the timer has not run out. The session's own TTL of 10 s is renewed besides, in case the agent dies or is cut off, and
// no agent is left to turn the check critical.
//
// A confirmation is sent every T/4. Each of its requests may take T/4 from when it is sent on an open connection. After a
// failure the next one is sent after a pause p, to the next agent: 50 ms, or T/32 if that is less. So with a grace of T/3, after
// an agent has fallen silent, the next one is sent T/2 + p after the last confirmation that counted. At round trips of T/24 it is
// answered in time for the lease, with a connection to be opened first, and one for the request that had no answer. Answers that come steadily keep the lease at round trips up to
// T/8, even if each needs a connection first.

// Keep implements engine.Session.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	err := s.confirmAll(ctx, renewed)
	if errors.Is(err, errEnded) || s.ended.Load() { // else the engine calls End
		s.driver.drop(s, true) // its check
		s.driver.clearing.Go(func() { s.driver.clearLeft(true) })
		return nil
	}
	return err
}

// confirmAll confirms the session again and again. It returns why the session is given up, or errEnded.
func (s *session) confirmAll(ctx context.Context, renewed func(engine.Proof)) error {
	d, ttl := s.driver, s.driver.config.TTL
	next, pause := s.sent.Time().Add(ttl/4), time.Duration(0)
	var last error // of the attempt before, which says more if the last attempt was cut short
	for {
		select {
		case <-time.After(time.Until(next)):
		case <-d.due:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		sent, err := s.confirm(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errEnded):
			return err
		case err != nil && agent.Refusing(err):
			return fmt.Errorf("the agent is gone: %v", err)
		case s.sent.Since(time.Now()) >= ttl:
			// in words: a ballot that is lost is not in doubt
			return fmt.Errorf("not confirmed for longer than the ttl %v: %v", ttl, cmp.Or(last, err, errLate))
		case err != nil:
			s.connection.Add(1)
			last = err
			pause = min(max(min(50*time.Millisecond, ttl/32), 2*pause), 400*time.Millisecond)
			next = time.Now().Add(pause)
		default:
			s.sent, pause, last = sent, 0, nil
			next = sent.Time().Add(ttl / 4)
			renewed(s.proof(sent))
			d.clearing.Go(func() { d.clearLeft(true) })
		}
	}
}

var (
	errLate  = errors.New("no answer in time")
	errEnded = errors.New("the session has ended")

	// errElsewhere says that a pass has reached another agent than the one that has the session's check.
	errElsewhere = fmt.Errorf("%w: it does not have the session's check; %s", agent.ErrRefused, oneAgent)
)

const oneAgent = "with a ttl below 10s all requests must reach one agent: is the address that of several? A ttl from 10s on may have several agents"

// confirm tries to confirm the session: it sends the requests at the same time, waits for all answers, and returns what
// kept the session from being confirmed. With a check, the session itself is renewed as often as it needs.
func (s *session) confirm(ctx context.Context) (sent store.Instant, err error) {
	d := s.driver
	sent = store.Now()
	ctx, cancel := context.WithTimeout(ctx, d.config.TTL-s.sent.Since(time.Now()))
	defer cancel()
	var requests sync.WaitGroup
	errs := make(chan error, 3)
	send := func(request func(context.Context, string) error, id string) {
		requests.Go(func() {
			ctx, cancelOne := agent.Within(ctx, d.config.TTL/4)
			defer cancelOne()
			err := request(ctx, id)
			if errors.Is(err, errEnded) {
				cancel() // whatever the others say
			} else {
				err = d.client.Explain(err)
			}
			errs <- err
		})
	}
	send(d.prove, s.id)
	if s.check != "" {
		send(d.pass, s.check)
	}
	renews := s.check == "" || time.Since(s.renewed) >= leastSessionTTL/4
	if renews {
		send(d.renew, s.id)
	}
	requests.Wait()
	close(errs)
	for one := range errs {
		err = errors.Join(err, one)
	}
	if renews && err == nil {
		s.renewed = sent.Time()
	}
	return sent, err
}

// renew renews the session itself.
func (d *driver) renew(ctx context.Context, id string) error {
	var renewed []api.SessionEntry
	_, err := d.client.Raw().Write("/v1/session/renew/"+id, nil, &renewed, d.client.WriteOptions(ctx))
	if err == nil && (len(renewed) == 0 || renewed[0].ID != id) {
		return agent.Odd("a renewal was answered as if there were no session")
	}
	return err
}

// pass passes the check. Only a 200 is a pass. It has no content, so the client can't decode it and returns io.EOF itself.
// A connection that closes without an answer is another error, which wraps io.EOF.
func (d *driver) pass(ctx context.Context, check string) error {
	var content any
	_, err := d.client.Raw().Write("/v1/agent/check/update/"+check, map[string]string{"Status": api.HealthPassing}, &content, d.client.WriteOptions(ctx))
	switch {
	case err == io.EOF:
		return nil
	case err == nil:
		return agent.Odd("the pass of a check was answered with content")
	case agent.NotFound(err) && strings.Contains(err.Error(), "Unknown check"):
		return errElsewhere
	}
	return err
}

// prove finds out whether the session stands. It reads the newest ballot, which shows more: the service has not gone back to
// a state from before that ballot, as it does by a restore. Then another leads, though the session goes on.
func (d *driver) prove(ctx context.Context, id string) error {
	key, stands, err := d.watches.Newest(agent.Confirming(ctx), func(key string) bool { of, _ := owner(key); return of == id })
	if err != nil || stands {
		return err
	}
	info, meta, err := d.client.Session().Info(id, d.client.Consistent(ctx))
	switch err = agent.FromAgent(meta, err); {
	case err != nil:
		return err
	case info == nil:
		return errEnded
	case key != "": // its watch has been told
		return fmt.Errorf("%w: the ballot %q has gone: it was deleted, or the service was restored", store.ErrUnavailable, key)
	}
	return nil
}

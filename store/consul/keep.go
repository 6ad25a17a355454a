package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// How a session is confirmed, and why the lease is safe.
//
// A server ends a session twice its TTL after it was created or last renewed at the server that leads; one that begins
// to lead starts all timers anew. The lease lasts one TTL from when a renewal was sent, less the grace, but a renewal
// alone proves little: it is answered from memory, without asking the other servers, even where the server does not
// lead any more, or where the timer has run out and the session is about to be ended. Therefore
//
//   - a renewal counts once a consistent read sent behind its answer has found the session: the server that leads
//     has the session still;
//   - it counts only where that answer came within one TTL of when the last one that counted was sent. Since timers
//     run for two, none can have run out before; later than that the session is given up, and destroyed;
//   - so there always are at least two renewals in a row behind a lease. For it to be wrong, servers that do not lead
//     any more would have to answer all renewals of one TTL, each followed by a consistent read that another server
//     answers. A server finds out that it was deposed within its raft lease, half a second by default times the
//     raft_multiplier, or in its first instructions after a pause.
//
// Below 10 s the session is bound to a TTL check, whose timer runs at the agent and only there, for exactly one TTL
// from the last pass that the agent received. Once it has run out, the agent tells its servers, and a pass that comes
// too late does not call that back. So a pass counts where it was answered within one TTL of when the last was sent:
// then the timer has not run out. The session's own TTL of 10 s is renewed besides, for the day on which the agent
// dies or is cut off with nobody left to turn the check critical.

// keep confirms the session, and lets the watches be looked after, until the store is closed.
func (s *Store) keep() {
	interval := s.config.TTL / 4
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.due:
		case <-s.life.Background.Done():
			return
		}
		began := time.Now()
		next := interval
		if sess := s.session(); sess != nil && !s.confirmSession(sess) {
			next = min(interval, 50*time.Millisecond)
		} else if s.looking.TryLock() && !s.life.Go(func() { defer s.looking.Unlock(); s.look() }) {
			s.looking.Unlock()
		}
		timer.Reset(max(0, next-time.Since(began)))
	}
}

// confirmSession renews the session and its lease once. It reports false where there was no answer.
func (s *Store) confirmSession(sess *session) bool {
	ctx, cancel := context.WithTimeout(s.life.Background, s.config.TTL/3)
	defer cancel()
	sent := store.Now()
	err := s.renew(ctx, sess)
	late := sess.sent.Since(time.Now()) >= s.config.TTL
	var proved store.Instant
	if err == nil && !late {
		proved = store.Now()
		err = s.prove(ctx, sess)
	}
	err = s.explain(ctx, err)
	s.mu.Lock()
	s.trouble = err
	s.mu.Unlock()
	if err != nil && store.Refused(err) != sess.denied {
		if sess.denied = !sess.denied; sess.denied {
			s.config.Logger.Warn("the session can't be renewed", "store", s.life.Name, "error", err)
		}
	}
	switch {
	case s.life.Calls.Err() != nil:
		return true // Close has ended the lease
	case errors.Is(err, errEnded), errors.Is(err, errUnchecked):
		s.abandon(sess, err)
	case err != nil && refusing(err):
		s.abandon(sess, fmt.Errorf("the agent is gone: %w", err))
	case late:
		s.abandon(sess, fmt.Errorf("not confirmed for longer than the ttl %v: %w", s.config.TTL, errOr(err, "the answer came late")))
	case err != nil:
		return false
	default:
		sess.sent = sent
		sess.lease.Renew(sent, s.config.TTL-s.config.Grace)
		if s.settled() {
			s.told(proved.Time())
		}
	}
	return true
}

func errOr(err error, text string) error {
	if err == nil {
		err = errors.New(text)
	}
	return err
}

var (
	errEnded     = errors.New("the session has ended")
	errUnchecked = errors.New("the session's check was deregistered")
)

// renew renews the session, and its check if it has one.
func (s *Store) renew(ctx context.Context, sess *session) error {
	if sess.check != "" {
		err := s.pass(ctx, sess.check)
		switch {
		case err == nil:
			sess.unknown = false
		case !notFound(err):
			return err
		case sess.unknown:
			return errUnchecked
		default: // perhaps not the agent's words: ask again
			sess.unknown = true
			return err
		}
		if time.Since(sess.renewed) < leastSessionTTL/4 {
			return nil
		}
	}
	at := time.Now()
	var renewed []api.SessionEntry
	_, err := s.client.Raw().Write("/v1/session/renew/"+sess.id, nil, &renewed, s.writeOptions(ctx))
	switch {
	case err == nil && len(renewed) > 0 && renewed[0].ID == sess.id:
		sess.renewed = at
		return nil
	case err != nil && !notFound(err):
		return err
	}
	if err := s.prove(ctx, sess); err != nil {
		return err
	}
	return &oddAnswer{"a renewal was answered as if there were no session"}
}

// pass passes the check. The agent's answer has no content.
func (s *Store) pass(ctx context.Context, check string) error {
	var content any
	_, err := s.client.Raw().Write("/v1/agent/check/update/"+check, map[string]string{"Status": api.HealthPassing}, &content, s.writeOptions(ctx))
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &oddAnswer{"the pass of a check was answered with content"}
	}
	return err
}

func notFound(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

// prove finds out whether the session stands.
func (s *Store) prove(ctx context.Context, sess *session) error {
	info, meta, err := s.client.Session().Info(sess.id, s.consistent(ctx))
	if err = agents(meta, err); err == nil && info == nil {
		return errEnded
	}
	return err
}

// service is the name of the service that sessions with a check are registered under. Nobody is to connect to it.
const service = "leadership"

// register registers a service with a check that passes until the TTL has gone by without another pass. The agent has
// told the servers when it answers, as a rule; otherwise the session can't be created, and Campaign tries again.
func (s *Store) register(ctx context.Context, id string) error {
	err := s.client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
		ID: id, Name: service, Namespace: s.config.Namespace, Partition: s.config.Partition,
		Check: &api.AgentServiceCheck{
			CheckID: id, Name: "leadership session", TTL: s.config.TTL.String(), Status: api.HealthPassing,
			DeregisterCriticalServiceAfter: "1m", // the least that an agent takes
		},
	}, api.ServiceRegisterOpts{}.WithContext(ctx))
	return err
}

// deregister removes a session's service, if there is one.
func (s *Store) deregister(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	err := s.client.Agent().ServiceDeregisterOpts(id, s.readOptions(ctx))
	if notFound(err) {
		return nil
	}
	return s.explain(ctx, err)
}

package consul

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// session is what the store knows of its session.
type session struct {
	id    string
	check string // the id of the service and of its check that the session is bound to; empty where there is none
	lease *store.Lease
	ctx   context.Context // ends, with the cause, when the store gives the session up or learns of its end
	end   context.CancelCauseFunc
	gone  chan struct{} // closed when the service is known to have ended it: nothing of it is left there

	// Of renewals. Written by whoever opens the session, then used by keep alone.
	sent    store.Instant // when the last one that counted was sent
	renewed time.Time     // when the session itself was last renewed, as against its check
}

// openSession returns the present session, or opens one. One caller opens it for all.
func (s *Store) openSession(ctx context.Context) (*session, error) {
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: no session: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	if sess := s.session(); sess != nil {
		<-s.opening
		return sess, nil
	}
	return request(ctx, s, func(ctx context.Context) (*session, error) {
		defer func() { <-s.opening }()
		return s.newSession(ctx)
	})
}

// session returns the present session, nil where there is none.
func (s *Store) session() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// newSession creates a session. Where the answer is lost, nobody knows its id: it holds no key, stands in nobody's way,
// and ends by itself. Creating it starts its timer at the servers, and registering the check that of the agent: the
// lease begins with the session.
func (s *Store) newSession(ctx context.Context) (*session, error) {
	name := "leadership-" + newNonce()
	ttl := max(s.config.TTL, leastSessionTTL)
	sess := &session{lease: store.NewLease(), gone: make(chan struct{}), sent: store.Now(), renewed: time.Now()}
	// The library's own call leaves out an empty list and a delay of zero, which then are given defaults.
	settings := map[string]any{
		"Name": name, "TTL": ttl.String(), "Behavior": api.SessionBehaviorDelete,
		"LockDelay": s.config.LockDelay.String(), "NodeChecks": []string{},
	}
	if s.config.checked() {
		sess.check = name
		if err := s.register(ctx, name); err != nil {
			return nil, fmt.Errorf("register the session's check: %w", err)
		}
		settings["ServiceChecks"] = []api.ServiceCheck{{ID: name, Namespace: s.config.Namespace}}
	}
	var created struct{ ID string }
	if _, err := s.client.Raw().Write("/v1/session/create", settings, &created, s.writeOptions(ctx)); err != nil {
		s.deregisterLater(sess.check)
		return nil, fmt.Errorf("create a session: %w", err)
	}
	if sess.id = created.ID; sess.id == "" {
		s.deregisterLater(sess.check)
		return nil, fmt.Errorf("create a session: %w", errNoAgent)
	}
	sess.ctx, sess.end = context.WithCancelCause(context.Background())
	if !sess.lease.Renew(sess.sent, s.config.TTL-s.config.Grace) {
		s.life.Go(func() { s.retire(sess) })
		return nil, fmt.Errorf("%w: creating the session took longer than its lease of %v", store.ErrUnavailable, s.config.TTL-s.config.Grace)
	}
	if sess.sent.Since(time.Now()) > s.config.TTL/4 { // keep would have renewed it by now
		defer s.confirmNow()
	}
	settled := s.settled() // before mu: who holds the watches' mu may take this one
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := sess.sent.Time(); s.life.Calls.Err() == nil && settled && at.After(s.confirmed) {
		s.confirmed = at
	}
	s.current = sess
	if s.life.Calls.Err() != nil {
		sess.lease.End() // Close destroys it
	} else {
		s.life.Go(func() { s.watchSession(sess) })
	}
	return sess, nil
}

// finish forgets the session, if it is still the present one. Its ballots know why before its lease ends.
func (s *Store) finish(sess *session, why error) bool {
	s.mu.Lock()
	present := s.current == sess
	if present {
		s.current = nil
	}
	for b := range s.ballots {
		if b.session == sess {
			b.LoseWith(why)
		}
	}
	s.mu.Unlock()
	sess.lease.End()
	sess.end(why)
	return present
}

// lose says that the service has ended the session.
func (s *Store) lose(sess *session, why string) {
	if s.finish(sess, fmt.Errorf("%w: %s", store.ErrLost, why)) {
		close(sess.gone)
		s.deregisterLater(sess.check)
	}
}

// abandon ends a session that may go on at the service, and sees to it that it does not: its ballots would stand in the
// way of all others.
func (s *Store) abandon(sess *session, why error) {
	if s.finish(sess, fmt.Errorf("%w: %w", store.ErrLost, why)) {
		s.life.Go(func() { s.retire(sess) })
	}
}

// retire destroys a session that was given up, for as long as there can be one.
func (s *Store) retire(sess *session) {
	limit := 3 * max(s.config.TTL, leastSessionTTL)
	for sess.sent.Since(time.Now()) < limit && s.life.Background.Err() == nil {
		ctx, cancel := context.WithTimeout(s.life.Background, requestLimit)
		err := s.destroy(ctx, sess)
		cancel()
		if err == nil {
			break
		}
		if !adapter.Uncertain(err) { // the token may be replaced yet
			adapter.PauseFor(s.life.Background, time.Second)
		}
		adapter.Pause(s.life.Background)
	}
	if s.life.Background.Err() == nil {
		close(sess.gone) // destroyed, or expired
	}
}

// destroy destroys the session, and removes its check.
func (s *Store) destroy(ctx context.Context, sess *session) error {
	_, err := s.client.Session().Destroy(sess.id, s.writeOptions(ctx))
	return errors.Join(s.explain(ctx, err), s.deregister(ctx, sess.check))
}

// watchSession waits for the end of the session by a blocking query, so that the holder stops at once where it ends
// early. A query that breaks off may mean that the agent is gone: the session is confirmed at once.
func (s *Store) watchSession(sess *session) {
	wait, index := firstWait, uint64(1)
	for sess.ctx.Err() == nil && s.life.Background.Err() == nil {
		ctx, cancel := context.WithCancel(s.life.Background)
		stop := context.AfterFunc(sess.ctx, cancel)
		q := s.readOptions(ctx)
		q.WaitIndex, q.WaitTime = index, wait
		info, meta, err := s.client.Session().Info(sess.id, q)
		stop()
		cancel()
		switch {
		case sess.ctx.Err() != nil || s.life.Background.Err() != nil:
			return
		case err != nil:
			_ = s.explain(ctx, err)
			s.confirmNow()
			adapter.Pause(s.life.Background)
		case info == nil:
			s.confirmNow() // a server that is behind may not know it yet, one that leads does
			adapter.Pause(sess.ctx)
			index = 1
		default:
			switch meta.LastIndex {
			case index:
				wait = min(2*wait, mostWait)
			case 0: // no answer of an agent's: it would be asked for without a wait
				adapter.Pause(sess.ctx)
			}
			index = max(1, meta.LastIndex)
		}
	}
}

// confirmNow lets keep confirm the session at once.
func (s *Store) confirmNow() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// refusing reports whether nobody listens where the agent should: it is gone, and may have left its cluster, which ends
// the sessions of its node.
func refusing(err error) bool {
	return errors.Is(err, errAllRefuse) || !errors.Is(err, errNoConnection) && errors.Is(err, syscall.ECONNREFUSED)
}

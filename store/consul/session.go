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
	name    string
	id      string // guarded by the store's mu until the session is adopted; empty until the service has told it
	tried   bool   // guarded by the store's mu: a request to create it may have been carried out
	check   string // constant: the id of the service and of its check that the session is bound to; empty if there is none
	lease   *store.Lease
	ctx     context.Context // ends, with the cause, when the store gives the session up or learns of its end
	end     context.CancelCauseFunc
	leaving map[string]struct{} // guarded by the store's mu: names of its ballots that are being removed
	gone    chan struct{}       // closed when the service is known to have ended it: nothing of it is left there

	// Of renewals. Written by the one who opens the session, then used by keep alone.
	sent    store.Instant // when the last one that counted was sent
	renewed time.Time     // when the session itself was last renewed, as against its check
	unknown bool          // the last pass was answered as if there were no check
	denied  bool          // the last renewal was denied, and the log has it
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
	return requestFor(ctx, s, max(requestLimit, 2*s.config.TTL), func(ctx context.Context) (*session, error) {
		defer func() { <-s.opening }()
		return s.newSession(ctx)
	})
}

// session returns the present session, nil if there is none.
func (s *Store) session() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// newSession creates a session. Creating it starts its timer at the servers, and registering the check that of the
// agent: the lease begins with the session. Until the session is the store's, it is among those to clear away.
func (s *Store) newSession(ctx context.Context) (*session, error) {
	s.warm(ctx)
	sess := &session{
		leaving: map[string]struct{}{},
		name:    "leadership-" + newNonce(), lease: store.NewLease(), gone: make(chan struct{}), sent: store.Now(), renewed: time.Now(),
	}
	if s.config.checked() {
		sess.check = sess.name
	}
	sess.ctx, sess.end = context.WithCancelCause(context.Background())
	s.discard(sess)
	err := s.create(ctx, sess)
	if err == nil && !sess.lease.Renew(sess.sent, s.config.TTL-s.config.Grace) {
		err = fmt.Errorf("%w: creating the session took longer than its lease of %v", store.ErrUnavailable, s.config.TTL-s.config.Grace)
	}
	if err == nil && !s.adopt(sess) {
		err = store.ErrClosed
	}
	if err != nil {
		sess.end(err)
		s.life.Go(func() { s.retire(sess) })
		return nil, err
	}
	select {
	case s.opened <- struct{}{}:
	default:
	}
	return sess, nil
}

// create creates the session at the service, with its check.
func (s *Store) create(ctx context.Context, sess *session) error {
	// The library's own call leaves out an empty list and a delay of zero, which then are given defaults.
	settings := map[string]any{
		"Name": sess.name, "TTL": max(s.config.TTL, leastSessionTTL).String(), "Behavior": api.SessionBehaviorDelete,
		"LockDelay": s.config.LockDelay.String(), "NodeChecks": []string{},
	}
	if sess.check != "" {
		if err := s.register(ctx, sess.check); err != nil {
			return fmt.Errorf("register the session's check: %w", s.explain(ctx, err))
		}
		settings["ServiceChecks"] = []api.ServiceCheck{{ID: sess.check, Namespace: s.config.Namespace}}
	}
	s.mu.Lock()
	sess.tried = true
	s.mu.Unlock()
	var created struct{ ID string }
	_, err := s.client.Raw().Write("/v1/session/create", settings, &created, s.writeOptions(ctx))
	if err == nil && created.ID == "" {
		err = &oddAnswer{"a new session has no ID"}
	}
	err = s.explain(ctx, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		sess.tried = errors.Is(err, store.ErrUnknownOutcome)
		return fmt.Errorf("create a session: %w", err)
	}
	sess.id = created.ID
	return nil
}

// adopt makes a session the store's, unless the store is being closed.
func (s *Store) adopt(sess *session) bool {
	settled := s.settled() // before mu: who holds the watches' mu may take this one
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Calls.Err() != nil {
		sess.lease.End()
		return false
	}
	if at := sess.sent.Time(); settled && at.After(s.confirmed) {
		s.confirmed = at
	}
	delete(s.discarded, sess)
	s.current = sess
	s.life.Go(func() { s.watchSession(sess) })
	return true
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

// abandon gives up a session that has ended, or might go on at the service, and destroys it: its ballots would stand in
// the way of all others.
func (s *Store) abandon(sess *session, why error) {
	if s.finish(sess, fmt.Errorf("%w: %w", store.ErrLost, why)) {
		s.discard(sess)
		s.life.Go(func() { s.retire(sess) })
	}
}

// watchSession waits for the end of the session by a blocking query, so that the holder stops at once if it ends
// early. A query that breaks off may mean that the agent is gone: the session is confirmed at once.
func (s *Store) watchSession(sess *session) {
	ctx, cancel := context.WithCancel(s.life.Background)
	defer cancel()
	defer context.AfterFunc(sess.ctx, cancel)()
	var pace pace
	wait, index := firstWait, uint64(1)
	for ctx.Err() == nil {
		asked := time.Now()
		q := s.readOptions(ctx)
		q.WaitIndex, q.WaitTime = index, wait
		info, meta, err := s.client.Session().Info(sess.id, q)
		switch waited := time.Since(asked) > wait/2; {
		case ctx.Err() != nil:
			return
		case err != nil:
			_ = s.explain(ctx, err)
			s.confirmNow()
			pace.pause(ctx)
		case info == nil:
			s.confirmNow() // a server that is behind may not know it yet, one that leads does
			pace.pause(ctx)
			index = 1
		case meta.LastIndex > index:
			index = meta.LastIndex
		case waited:
			pace.reset()
			wait = min(2*wait, mostWait)
			index = max(1, meta.LastIndex)
		default: // the state was replaced by a snapshot, the server that answers is behind, or it is no agent's answer
			s.sweepRevived(sess)
			pace.pause(ctx)
			index = max(1, meta.LastIndex)
		}
	}
}

// pace slows down queries that are answered at once without news.
type pace struct{ last time.Duration }

// pause waits from 50 ms, doubled each time, to a second.
func (p *pace) pause(ctx context.Context) {
	p.last = min(max(2*p.last, 50*time.Millisecond), time.Second)
	adapter.PauseFor(ctx, p.last)
}

func (p *pace) reset() { p.last = 0 }

// confirmNow lets keep confirm the session at once.
func (s *Store) confirmNow() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// refusing reports whether connections to the agent are refused: it is gone, and might have left its cluster, which
// ends the sessions of its node.
func refusing(err error) bool {
	return errors.Is(err, errAllRefuse) || !errors.Is(err, errNoConnection) && errors.Is(err, syscall.ECONNREFUSED)
}

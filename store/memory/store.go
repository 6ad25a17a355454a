// Package memory is the reference store: elections within one process. It is complete (sessions with a TTL, expiry,
// fencing tokens, acknowledgement), it runs in the virtual time of testing/synctest, and its [Faults] make the line
// between a store and its service fail on demand.
//
//	service := memory.NewService()
//	st, err := memory.Open(service, nil)
//
// or, with a service that all of the process shares under a name, store.Open(ctx, "memory://name?ttl=10s", nil).
//
// A crashed holder is replaced TTL after its last renewal at the latest.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/opaque"
	"github.com/go-leadership/leadership/internal/polls"
	"github.com/go-leadership/leadership/store"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	TTL   time.Duration // how long the session lives without renewal; 10 s
	Grace time.Duration // time reserved before expiry for the leader's work to stop; a third of the TTL
}

const defaultTTL = 10 * time.Second

// Store is one session on a [Service], made by [Open]. It implements store.Store.
type Store struct {
	service *Service
	faults  Faults
	ttl     time.Duration
	grace   time.Duration

	life  *adapter.Life // with every goroutine of the store
	polls polls.Set

	mu        sync.Mutex
	current   *clientSession // guarded by mu, as are all below; nil while there is none
	next      chan struct{}  // closed and replaced when current changes
	confirmed time.Time
	nonce     uint64
}

// clientSession is what the store knows of its session.
type clientSession struct {
	id    uint64
	lease *store.Lease
	over  context.Context // ends when the store learns that the session is, and when the store is closed, with the cause
	end   context.CancelCauseFunc
}

// Open opens a store on the service. It returns at once; the session opens in the background.
func Open(service *Service, config *Config) (*Store, error) {
	if service == nil {
		return nil, &store.FieldError{Field: "service", Reason: "it is nil"}
	}
	if config == nil {
		config = &Config{}
	}
	s := &Store{service: service, ttl: config.TTL, grace: config.Grace, next: make(chan struct{})}
	if s.ttl == 0 {
		s.ttl = defaultTTL
	}
	if s.grace == 0 {
		s.grace = s.ttl / 3
	}
	if s.ttl < time.Millisecond { // negative ones too
		return nil, &store.FieldError{Field: "ttl", Value: s.ttl.String(), Reason: "less than 1ms"}
	}
	if s.grace < 0 || s.grace >= s.ttl/2 {
		reason := fmt.Sprintf("not from 0 to below half of the ttl %v", s.ttl)
		return nil, &store.FieldError{Field: "grace", Value: s.grace.String(), Reason: reason}
	}
	s.faults = Faults{store: s, changed: make(chan struct{})}
	s.life = adapter.NewLife("memory", false, service.name)
	s.life.Go(s.keep)
	return s, nil
}

// Faults returns the switches on the line between this store and its service.
func (s *Store) Faults() *Faults { return &s.faults }

// keep opens sessions and renews them until the store is closed. It ends the last one unless the line is cut.
func (s *Store) keep() {
	for s.life.Calls.Err() == nil {
		sess := &clientSession{lease: store.NewLease()}
		sess.over, sess.end = context.WithCancelCause(s.life.Calls)
		sent := store.Now()
		if err := s.faults.send(s.life.Calls, func() { sess.id = s.service.open(s.ttl) }); err != nil {
			sess.end(err)
			s.service.drop(sess.id) // nobody knows of it
			continue
		}
		s.renewed(sess, sent)
		s.setSession(sess)
		s.renew(sess, sent)
		s.setSession(nil)
		why := adapter.ErrSessionEnded
		if s.life.Calls.Err() != nil {
			why = store.ErrClosed
		}
		sess.end(why) // all its ballots have been told when it returns, and only then does the lease end
		sess.lease.End()
		if s.life.Calls.Err() != nil && s.faults.reached() {
			s.service.drop(sess.id)
		}
	}
}

// renew renews the session every quarter of its TTL and returns when it is over. The time counts from when the last
// renewal was sent, so that the lease is renewed in time while two round trips and a twentieth of the TTL fit into it.
func (s *Store) renew(sess *clientSession, sent store.Instant) {
	for {
		adapter.PauseFor(s.life.Calls, max(s.ttl/20, s.ttl/4-time.Since(sent.Time())))
		if s.life.Calls.Err() != nil {
			return
		}
		var lives bool
		sent = store.Now()
		err := s.faults.send(s.life.Calls, func() { lives = s.service.touch(sess.id) })
		switch {
		case err == nil && !lives:
			return
		case err == nil:
			s.renewed(sess, sent)
		}
	}
}

func (s *Store) renewed(sess *clientSession, sent store.Instant) {
	sess.lease.Renew(sent, s.ttl-s.grace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls.Settled() {
		s.confirmed = sent.Time()
	}
}

func (s *Store) session() *clientSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *Store) setSession(sess *clientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = sess
	close(s.next)
	s.next = make(chan struct{})
}

// awaitSession returns the session as soon as there is one.
func (s *Store) awaitSession(ctx context.Context) (*clientSession, error) {
	for {
		s.mu.Lock()
		sess, next := s.current, s.next
		s.mu.Unlock()
		if sess != nil {
			return sess, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Leader implements store.Store.
func (s *Store) Leader(ctx context.Context, election string, prev *store.Leader) (store.Leader, error) {
	return s.life.ReadLeader(ctx, election, func(ctx context.Context) (store.Leader, error) {
		defer s.service.wait(election)()
		poll := s.polls.Begin()
		defer poll.End()
		for {
			var leader store.Leader
			var changed <-chan struct{}
			err := s.faults.call(ctx, func() { leader, changed = s.service.leader(election) })
			switch {
			case ctx.Err() != nil:
				return store.Leader{}, context.Cause(ctx)
			case err != nil:
			case prev == nil || leader != *prev:
				return leader, nil
			default:
				poll.Wait(changed)
				s.await(ctx, changed)
				poll.Wait()
			}
		}
	})
}

// await waits for a notification. A notification that never comes costs a TTL, not for ever.
func (s *Store) await(ctx context.Context, event <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, s.ttl)
	defer cancel()
	select {
	case <-event:
		_ = s.faults.notified(ctx) // where it fails, the caller looks again all the same
	case <-ctx.Done():
	}
}

// Ballots implements store.Store.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if err := store.CheckElection(election); err != nil {
		return nil, err
	}
	ctx, done, err := s.life.Call(ctx)
	if err != nil {
		return nil, s.life.Fail("list the ballots", election, err)
	}
	defer done()
	for {
		var list []store.Standing
		err := s.faults.call(ctx, func() { list = s.service.standing(election) })
		if ctx.Err() != nil {
			return nil, s.life.Fail("list the ballots", election, context.Cause(ctx))
		}
		if err == nil {
			return list, nil
		}
	}
}

// String returns the service's name, as in a URL: what errors and logs name the store by.
func (s *Store) String() string { return s.life.Name }

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (s *Store) Format(f fmt.State, verb rune) { opaque.Format(f, verb, s.life.Name) }

// TTL implements store.Store.
func (s *Store) TTL() time.Duration { return s.ttl }

// Confirmed implements store.Store.
func (s *Store) Confirmed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed
}

// Close implements store.Store. The session ends at once unless the line is cut.
func (s *Store) Close() error {
	s.life.Close()
	s.life.Stop()
	s.life.Wait()
	return nil
}

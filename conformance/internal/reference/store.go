package reference

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Store is one session on a [Service]. It implements store.Store.
type Store struct {
	service    *Service
	line       *Line
	ttl, grace time.Duration
	life       *adapter.Lifecycle
	number     uint64        // of the store
	removals   chan struct{} // has room for the one that removes: AbandonedOneByOne

	mu      sync.Mutex
	current *clientSession    // guarded by mu, as are all below; nil while there is none
	next    chan struct{}     // closed and replaced when current changes
	worked  bool              // a request was answered
	renewal time.Time         // when the last one was sent that was answered: FreshBeforeNews
	lease   *store.Lease      // of all sessions: LeaseOfTwoSessions
	cast    uint64            // ballots so far: TokenOfClient
	reads   int               // of the leader so far: LeaderBackInTime
	slots   map[string][]slot // of names, by election: RemovalByName
}

// clientSession is what the store knows of its session.
type clientSession struct {
	id    uint64
	lease *store.Lease
	over  context.Context // ends when the store learns that the session is, and when the store is closed, with the cause
	end   context.CancelCauseFunc
}

// Open opens a store on the service. It returns at once; the session opens in the background.
func Open(service *Service, ttl, grace time.Duration) *Store {
	s := &Store{
		service: service, line: newLine(), ttl: ttl, grace: grace,
		life: adapter.NewLifecycle("reference", false, ""), next: make(chan struct{}), lease: store.NewLease(),
		slots: map[string][]slot{}, removals: make(chan struct{}, 1),
	}
	s.number = service.add(s)
	s.life.Go(s.keep)
	if s.has(RetriesUnpaused) || s.has(GoroutineOfRefusal) {
		s.life.Go(s.retry)
	}
	return s
}

// Line returns the switches on the line between the store and its service.
func (s *Store) Line() *Line { return s.line }

func (s *Store) has(f Flaw) bool { return s.service.flaw == f }

// retry sends requests that fail, 200 in a TTL, while the line is cut, or leaves a goroutine for each.
func (s *Store) retry() {
	for ; s.life.Calls.Err() == nil; adapter.PauseFor(s.life.Calls, s.ttl/200) {
		switch {
		case !s.line.IsCut():
		case s.has(RetriesUnpaused):
			s.line.Count()
		default:
			s.service.leave()
		}
	}
}

// keep opens sessions and renews them until the store is closed.
func (s *Store) keep() {
	for opened := false; s.life.Calls.Err() == nil && !(opened && s.has(SessionOnce)); opened = true {
		sess := &clientSession{lease: store.NewLease()}
		if s.has(LeaseOfTwoSessions) {
			sess.lease = s.lease
		}
		sess.over, sess.end = context.WithCancelCause(context.Background())
		sent := store.Now()
		if err := s.line.Send(s.life.Calls, func() { sess.id = s.service.open(s.ttl) }); err != nil {
			sess.end(err)
			s.service.drop(sess.id) // its owner does not know of it
			opened = false
			continue
		}
		s.renewed(sess, sent)
		s.setSession(sess)
		s.renew(sess, sent)
		s.setSession(nil)
		s.end(sess)
	}
}

// renew renews the session every quarter of its TTL and returns when it is over, or the store is closed.
func (s *Store) renew(sess *clientSession, sent store.Instant) {
	for {
		adapter.PauseFor(s.life.Calls, max(s.ttl/20, s.ttl/4-time.Since(sent.Time())))
		if s.life.Calls.Err() != nil {
			return
		}
		var lives bool
		sent = store.Now()
		if s.has(LeaseBeforeAnswer) {
			s.renewed(sess, sent)
		}
		err := s.line.Send(s.life.Calls, func() { lives = s.service.touch(sess.id) })
		if s.has(AnswersCutOff) && time.Since(sent.Time()) > s.ttl/10 {
			continue
		}
		switch {
		case err == nil && !lives && !s.has(DeadSessionRenewed):
			return
		case err == nil:
			s.renewed(sess, sent)
		}
	}
}

func (s *Store) renewed(sess *clientSession, sent store.Instant) {
	lasts, renewal := s.ttl-s.grace, sent.Time()
	switch s.service.flaw {
	case LeaseFromAnswer:
		sent = store.Now()
	case LeaseOfWholeTTL:
		lasts = s.ttl
	case LeaseEndless:
		lasts = 1000 * time.Hour
	}
	sess.lease.Renew(sent, lasts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worked, s.renewal = true, renewal
}

// end ends a session: its ballots first, then the lease, then the session at the service unless the line is cut.
func (s *Store) end(sess *clientSession) {
	why, closed := adapter.ErrSessionEnded, s.life.Calls.Err() != nil
	if closed && !s.has(ErrWithoutClosed) {
		why = adapter.ErrClosed
	}
	if !closed || !s.has(CloseForgetsCampaign) {
		sess.end(why)
	}
	if !s.has(LeaseOfTwoSessions) && !(closed && (s.has(LeaseOutlivesClose) || s.has(CloseForgetsCampaign))) {
		sess.lease.End()
	}
	if closed && !s.line.IsCut() && !s.has(CloseLeavesSession) {
		s.service.drop(sess.id)
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

// Ballots implements store.Store.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if err := store.CheckElection(election); err != nil && !s.has(NamesUnchecked) {
		return nil, err
	}
	return repeat(ctx, s.life, "list the ballots", election, func(ctx context.Context) ([]store.Standing, error) {
		var standing []store.Standing
		var mine uint64
		if sess := s.session(); sess != nil {
			mine = sess.id
		}
		err := s.line.call(ctx, func() {
			standing = nil
			for _, k := range s.queue(election) {
				if s.has(BallotsOfOthersHidden) && k.session != mine {
					continue
				}
				standing = append(standing, store.Standing{Value: k.value, Token: s.token(k), Asked: k.asked})
			}
		})
		if s.has(BallotsReversed) {
			slices.Reverse(standing)
		}
		return standing, err
	})
}

// queue returns an election's ballots, first in line first.
func (s *Store) queue(election string) []*key {
	list, _ := s.service.list(s.directory(election))
	if s.has(OrderOfNames) {
		slices.SortFunc(list, func(a, b *key) int { return strings.Compare(a.name, b.name) })
	}
	return list
}

// directory is where the ballots of an election are.
func (s *Store) directory(election string) string {
	if s.has(NamesMeet) {
		return election + "/"
	}
	return ballots(election)
}

// token is the fencing token of a ballot.
func (s *Store) token(k *key) uint64 {
	if s.has(TokenRestarts) {
		return k.count
	}
	return k.created
}

// Worked implements store.Store.
func (s *Store) Worked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worked && !s.has(WorkedNever)
}

// TTL implements store.Store.
func (s *Store) TTL() time.Duration {
	if s.has(TTLOfDefault) {
		return 15 * time.Second
	}
	return s.ttl
}

// Close implements store.Store.
func (s *Store) Close() error {
	if s.has(CloseForgetsCampaign) {
		if sess := s.session(); sess != nil {
			sess.end(adapter.ErrClosed)
			sess.lease.End()
		}
		adapter.PauseFor(s.life.Calls, s.ttl/100)
	}
	if s.has(GoroutineOfClose) {
		s.service.leave()
	}
	s.life.Close()
	s.life.Stop()
	s.life.Wait()
	return nil
}

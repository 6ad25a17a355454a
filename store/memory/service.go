package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Service is a coordination service within this process: what the servers are to the other stores. The stores opened
// on one service see the same elections. Its zero value is ready to use. All its state is behind one mutex, which no
// caller's code ever runs under.
type Service struct {
	name string // constant: what comes behind memory:// in a URL; empty where it has none

	mu        sync.Mutex
	index     uint64               // of the last change; tokens and revisions are taken from it and it never goes back
	elections map[string]*election // those that somebody stands in or waits for a leader of
	sessions  map[uint64]*session
}

// election is guarded by the service's mutex.
type election struct {
	name    string
	waiting int      // Leader calls under way
	ballots []*entry // in the order of their tokens
	leader  store.Leader
	holder  *entry        // whose acknowledgement leader is
	changed chan struct{} // closed and replaced when leader changes
}

// entry is a ballot as the service keeps it. Only gone is used without the service's mutex.
type entry struct {
	election *election
	session  *session
	nonce    uint64
	token    uint64
	value    string
	gone     chan struct{} // closed by the service when it removes the entry
}

// session is guarded by the service's mutex.
type session struct {
	id      uint64
	ttl     time.Duration
	expiry  *time.Timer
	touched time.Time
	entries []*entry
}

// NewService returns a service of its own that nothing else in the process shares.
func NewService() *Service { return &Service{} }

// Clear removes all that the service keeps of an election, as an operator might: ballots and acknowledgement. Tokens
// go on growing.
func (s *Service) Clear(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, ok := s.elections[name]; ok && len(e.ballots) > 0; {
		s.remove(e.ballots[0])
	}
}

// election returns the election, made if need be. The caller holds the mutex.
func (s *Service) election(name string) *election {
	e, ok := s.elections[name]
	if !ok {
		e = &election{name: name, changed: make(chan struct{})}
		if s.elections == nil {
			s.elections = map[string]*election{}
		}
		s.elections[name] = e
	}
	return e
}

// forget drops an election that nobody needs any more. The caller holds the mutex.
func (s *Service) forget(e *election) {
	if len(e.ballots) == 0 && e.waiting == 0 {
		delete(s.elections, e.name)
	}
}

func (s *Service) open(ttl time.Duration) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	sess := &session{id: s.index, ttl: ttl, touched: time.Now()}
	if s.sessions == nil {
		s.sessions = map[uint64]*session{}
	}
	s.sessions[sess.id] = sess
	sess.expiry = time.AfterFunc(ttl, func() { s.expire(sess.id) })
	return sess.id
}

// touch renews a session and reports whether it exists.
func (s *Service) touch(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	if ok {
		sess.touched = time.Now()
		sess.expiry.Reset(sess.ttl)
	}
	return ok
}

// expire ends a session whose TTL has passed since it was last touched.
func (s *Service) expire(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	if !ok {
		return
	}
	if left := sess.ttl - time.Since(sess.touched); left > 0 { // touched while the timer fired
		sess.expiry.Reset(left)
		return
	}
	s.end(sess)
}

// drop ends a session at once, whatever its TTL.
func (s *Service) drop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess, ok := s.sessions[id]; ok {
		s.end(sess)
	}
}

// end ends a session with all its ballots. The caller holds the mutex.
func (s *Service) end(sess *session) {
	sess.expiry.Stop()
	delete(s.sessions, sess.id)
	for len(sess.entries) > 0 {
		s.remove(sess.entries[0])
	}
}

// cast adds a ballot, or finds the one that was added with the same nonce before. It returns nil where the session
// is over.
func (s *Service) cast(id, nonce uint64, name, value string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	if !ok {
		return nil
	}
	e := s.election(name)
	for _, b := range sess.entries {
		if b.nonce == nonce && b.election == e {
			return b
		}
	}
	s.index++
	b := &entry{election: e, session: sess, nonce: nonce, token: s.index, value: value, gone: make(chan struct{})}
	e.ballots = append(e.ballots, b)
	sess.entries = append(sess.entries, b)
	return b
}

// remove takes a ballot and its acknowledgement away. Removing it again does nothing. The caller holds the mutex.
func (s *Service) remove(b *entry) {
	i := slices.Index(b.election.ballots, b)
	if i < 0 {
		return
	}
	b.election.ballots = slices.Delete(b.election.ballots, i, i+1)
	b.session.entries = slices.DeleteFunc(b.session.entries, func(o *entry) bool { return o == b })
	if b.election.holder == b {
		b.election.lead(nil, store.Leader{})
	}
	s.index++
	close(b.gone)
	s.forget(b.election)
}

func (e *election) lead(holder *entry, leader store.Leader) {
	e.holder, e.leader = holder, leader
	close(e.changed)
	e.changed = make(chan struct{})
}

// withdraw removes a ballot.
func (s *Service) withdraw(b *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(b)
}

// withdrawNonce removes the ballot that a session cast with the nonce, if there is one.
func (s *Service) withdrawNonce(id, nonce uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	if !ok {
		return
	}
	for _, b := range sess.entries {
		if b.nonce == nonce {
			s.remove(b)
			return
		}
	}
}

// ahead returns the ballot just before b, nil where b is first, and whether b stands at all.
func (s *Service) ahead(b *entry) (before *entry, stands bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(b.election.ballots, b)
	if i > 0 {
		before = b.election.ballots[i-1]
	}
	return before, i >= 0
}

// acknowledge makes b's value public if b stands and is first.
func (s *Service) acknowledge(b *entry, value string) (store.Leader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch slices.Index(b.election.ballots, b) {
	case -1:
		return store.Leader{}, store.ErrLost
	case 0:
		s.index++
		b.election.lead(b, store.Leader{Value: value, Revision: s.index})
		return b.election.leader, nil
	default:
		return store.Leader{}, store.ErrNotFirst
	}
}

// wait begins a Leader call: the election is kept until the function that it returns has been called.
func (s *Service) wait(name string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.election(name)
	e.waiting++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.waiting--
		s.forget(e)
	}
}

// leader returns the acknowledged leader and a channel that is closed at the next change, for one who waits.
func (s *Service) leader(name string) (store.Leader, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.election(name)
	return e.leader, e.changed
}

func (s *Service) standing(name string) []store.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.elections[name]
	if !ok {
		return nil
	}
	var list []store.Standing
	for _, b := range e.ballots {
		list = append(list, store.Standing{Value: b.value, Token: b.token})
	}
	return list
}

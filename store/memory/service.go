package memory

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/engine"
	"github.com/go-leadership/leadership/store"
)

// Service is a coordination service within this process, like the servers of the other stores. The stores opened on one
// service see the same elections. Its zero value is ready to use. One mutex guards all its state; no caller's code runs
// while it is held.
type Service struct {
	name string // constant: the part of a URL after memory://; empty if it has none

	mu        sync.Mutex
	index     uint64               // of the last change; tokens and revisions are taken from it and it never goes back
	elections map[string]*election // those with ballots
	entries   map[string]*entry    // by key
	sessions  map[uint64]*session
	watches   map[string]map[*watch]struct{} // by the key of an entry, or the name of an election behind "leader "
}

// election is guarded by the service's mutex.
type election struct {
	name    string
	ballots []*entry // in the order of their tokens
	leader  store.Leader
	holder  *entry // whose acknowledgement leader is
}

// entry is a ballot as the service keeps it. It is constant.
type entry struct {
	election *election
	session  *session
	nonce    string
	token    uint64
	value    string
	key      string
}

// session is guarded by the service's mutex.
type session struct {
	id      uint64
	ttl     time.Duration
	expiry  *time.Timer
	touched time.Time
	entries []*entry
	void    [engine.Slots]uint64 // the last turn of each slot that is void
}

// NewService returns a service of its own that nothing else in the process shares.
func NewService() *Service { return &Service{} }

// Clear removes all that the service keeps of an election, as an operator might: ballots and acknowledgement. Tokens go
// on growing. The last in line is removed first, so that no ballot becomes first meanwhile.
func (s *Service) Clear(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear(name)
}

func (s *Service) clear(name string) {
	if e, ok := s.elections[name]; ok {
		for _, b := range slices.Backward(slices.Clone(e.ballots)) {
			s.remove(b)
		}
	}
}

// clearAll is Clear of every election.
func (s *Service) clearAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Collect(maps.Keys(s.elections)) {
		s.clear(name)
	}
}

// election returns the election, made if need be. The caller holds the mutex.
func (s *Service) election(name string) *election {
	e, ok := s.elections[name]
	if !ok {
		e = &election{name: name}
		if s.elections == nil {
			s.elections, s.entries = map[string]*election{}, map[string]*entry{}
		}
		s.elections[name] = e
	}
	return e
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

// drop ends a session at once, before its TTL has passed.
func (s *Service) drop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess, ok := s.sessions[id]; ok {
		s.end(sess)
	}
}

// end ends a session with all its ballots, in one step. The caller holds the mutex.
func (s *Service) end(sess *session) {
	sess.expiry.Stop()
	delete(s.sessions, sess.id)
	for _, b := range slices.Clone(sess.entries) {
		s.remove(b)
	}
}

// errVoid refuses a request to enter a ballot whose nonce is void.
var errVoid = fmt.Errorf("%w: the nonce is void", store.ErrUnavailable)

// enter adds a ballot, or finds the one that was added with the same nonce before.
func (s *Service) enter(id uint64, n engine.Nonce, name, value string) (engine.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	switch {
	case !ok:
		return engine.Entry{}, engine.ErrOver
	case n.Turn <= sess.void[n.Slot]:
		return engine.Entry{}, errVoid
	}
	b := sess.find(n.Name)
	if b == nil {
		s.index++
		e := s.election(name)
		b = &entry{election: e, session: sess, nonce: n.Name, token: s.index, value: value}
		b.key = fmt.Sprintf("%s/%d", name, b.token)
		e.ballots = append(e.ballots, b)
		sess.entries = append(sess.entries, b)
		s.entries[b.key] = b
	}
	place, _ := s.place(b)
	return engine.Entry{Election: name, Key: b.key, Token: b.token, Place: place}, nil
}

func (sess *session) find(nonce string) *entry {
	for _, b := range sess.entries {
		if b.nonce == nonce {
			return b
		}
	}
	return nil
}

// remove takes a ballot and its acknowledgement away. Removing it again does nothing. The caller holds the mutex.
func (s *Service) remove(b *entry) {
	if s.entries[b.key] != b {
		return
	}
	e := b.election
	delete(s.entries, b.key)
	e.ballots = slices.DeleteFunc(e.ballots, func(o *entry) bool { return o == b })
	b.session.entries = slices.DeleteFunc(b.session.entries, func(o *entry) bool { return o == b })
	s.index++
	if e.holder == b {
		s.lead(e, nil, store.Leader{})
	}
	s.changed(b.key)
	if len(e.ballots) == 0 {
		delete(s.elections, e.name)
	}
}

func (s *Service) lead(e *election, holder *entry, leader store.Leader) {
	e.holder, e.leader = holder, leader
	s.changed(leaderKey(e.name))
}

// withdraw removes a ballot, if it stands.
func (s *Service) withdraw(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.entries[key]; ok {
		s.remove(b)
	}
}

// void removes the ballot that a session cast with the nonce, and keeps requests to cast it from being carried out.
func (s *Service) void(id uint64, n engine.Nonce) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	if !ok {
		return engine.ErrOver
	}
	sess.void[n.Slot] = max(sess.void[n.Slot], n.Turn)
	if b := sess.find(n.Name); b != nil {
		s.remove(b)
	}
	return nil
}

// place returns what is ahead of b, and whether b stands at all. The caller holds the mutex.
func (s *Service) place(b *entry) (place engine.Place, stands bool) {
	i := slices.Index(b.election.ballots, b)
	if i > 0 {
		place = engine.Place{Nearest: b.election.ballots[i-1].key, More: i > 1}
	}
	return place, i >= 0
}

func (s *Service) ahead(key string) (engine.Place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.entries[key]
	if !ok {
		return engine.Place{}, engine.ErrGone
	}
	place, _ := s.place(b)
	return place, nil
}

// acknowledge makes the value of a ballot public if the ballot stands and is first.
func (s *Service) acknowledge(key, value string) (revision uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.entries[key]
	switch {
	case !ok:
		return 0, engine.ErrGone
	case b.election.ballots[0] != b:
		return 0, store.ErrNotFirst
	}
	s.index++
	s.lead(b.election, b, store.Leader{Value: value, Revision: s.index})
	return s.index, nil
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

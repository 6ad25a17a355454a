package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Service is a coordination service within this process, like the servers of the other stores. The stores opened on one
// service see the same elections. Its zero value is ready to use. One mutex guards all its state. It is held while a request
// is carried out, so that the functions here that are not exported do not take it, except for expire and drop. The function
// given to Trace is called while it is held, and no other code of a caller's.
type Service struct {
	Name string // constant: the part of a URL after memory://; empty if it has none

	mu        sync.Mutex
	index     uint64               // of the last change; tokens and revisions are taken from it and it never goes back
	elections map[string]*election // those with ballots
	entries   map[string]*entry    // by key
	sessions  map[uint64]*session
	clock     float64                        // how fast the service's clock runs; 0: as time does
	trace     func(Event)                    // nil, or told of events
	watches   map[string]map[*watch]struct{} // by the key of an entry, or by leaderKey
}

// election is guarded by the service's mutex.
type election struct {
	name    string
	ballots []*entry // in the order of their tokens
	leader  store.Leader
	holder  *entry // whose acknowledgement leader is
}

// entry is a ballot as the service keeps it. It is constant, but for resign and led, which the service's mutex guards.
type entry struct {
	election *election
	session  *session
	nonce    string
	token    uint64
	value    string
	key      string
	resign   bool // an operator has asked its owner to resign
	led      bool // it has been acknowledged
}

// session is guarded by the service's mutex.
type session struct {
	id      uint64
	ttl     time.Duration
	expiry  *time.Timer   // nil if the peers expire it
	keeps   time.Duration // for how long the service keeps it after the last renewal, by its clock
	mark    uint64        // the index of the last renewal
	proved  proved        // by peers, of a mark
	touched time.Time
	entries []*entry
	void    [engine.Slots]uint64 // the last turn of each slot that is void
}

// locked calls do with the mutex held.
func (s *Service) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// NewService returns a service of its own that nothing else in the process shares.
func NewService() *Service { return &Service{} }

// Clear removes everything that the service keeps of an election, as an operator might: ballots and acknowledgement; of
// all elections if the name is empty. Tokens go on growing. The last in line is removed first, so that no ballot
// becomes first meanwhile.
func (s *Service) Clear(election string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.elections {
		if name == election || election == "" {
			ballots := slices.Clone(e.ballots)
			slices.Reverse(ballots)
			s.remove(ballots...)
		}
	}
}

// names returns the names of the elections.
func (s *Service) names() []string {
	return slices.Collect(maps.Keys(s.elections))
}

// election returns the election, made if need be.
func (s *Service) election(name string) *election {
	e, ok := s.elections[name]
	if !ok {
		e = &election{name: name}
		s.elections[name] = e
	}
	return e
}

// open opens a session. If the peers expire it, the service never does.
func (s *Service) open(ttl time.Duration, peers bool) uint64 {
	s.index++
	sess := &session{id: s.index, mark: s.index, ttl: ttl, keeps: byClock(ttl, s.clock), touched: time.Now()}
	if s.sessions == nil { // no ballot has been cast yet
		s.sessions, s.elections, s.entries = map[uint64]*session{}, map[string]*election{}, map[string]*entry{}
	}
	s.sessions[sess.id] = sess
	if !peers {
		sess.expiry = time.AfterFunc(sess.keeps, func() { s.expire(sess.id) })
	}
	return sess.id
}

// touch renews a session and reports whether it exists. The service keeps the session for its TTL plus longer.
func (s *Service) touch(id uint64, longer time.Duration) bool {
	sess, ok := s.sessions[id]
	if !ok {
		return false
	}
	s.index++
	sess.mark, sess.touched = s.index, time.Now()
	if sess.expiry != nil {
		sess.keeps = byClock(sess.ttl, s.clock) + longer
		sess.expiry.Reset(sess.keeps)
	}
	return true
}

// expire ends a session if its TTL has passed since it was last renewed.
func (s *Service) expire(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.sessions[id]
	if !ok {
		return
	}
	if left := sess.keeps - time.Since(sess.touched); left > 0 { // touched while the timer fired
		sess.expiry.Reset(left)
		return
	}
	s.expired(sess)
	s.end(sess)
}

// drop ends a session at once, before its TTL has passed.
func (s *Service) drop(id uint64) {
	s.locked(func() {
		if sess, ok := s.sessions[id]; ok {
			s.end(sess)
		}
	})
}

// end ends a session with all its ballots, in one step.
func (s *Service) end(sess *session) {
	if sess.expiry != nil {
		sess.expiry.Stop()
	}
	delete(s.sessions, sess.id)
	ballots := slices.Clone(sess.entries)
	order := rand.New(rand.NewPCG(s.index, sess.id)) // any order, the same in each run
	order.Shuffle(len(ballots), func(i, j int) { ballots[i], ballots[j] = ballots[j], ballots[i] })
	s.remove(ballots...)
}

// errVoid refuses a request to enter a ballot whose nonce is void.
var errVoid = fmt.Errorf("%w: the nonce is void", store.ErrUnavailable)

// enter adds a ballot, or finds the one that was added with the same nonce before.
func (s *Service) enter(id uint64, n engine.Nonce, name, value string) (engine.Entry, error) {
	sess, ok := s.sessions[id]
	switch {
	case !ok:
		return engine.Entry{}, engine.ErrOver
	case n.Turn <= sess.void[n.Slot]:
		s.tell(Event{Kind: EnterVoid, Election: name, Nonce: n.Name})
		return engine.Entry{}, errVoid
	}
	b := sess.find(n.Name)
	if b == nil {
		s.index++
		e := s.election(name)
		b = &entry{election: e, session: sess, nonce: n.Name, token: s.index, value: value}
		b.key = EntryKey(name, b.token)
		e.ballots = append(e.ballots, b)
		sess.entries = append(sess.entries, b)
		s.entries[b.key] = b
	}
	return engine.Entry{Election: name, Key: b.key, Token: b.token, Place: b.place()}, nil
}

func (sess *session) find(nonce string) *entry {
	for _, b := range sess.entries {
		if b.nonce == nonce {
			return b
		}
	}
	return nil
}

// remove removes ballots that stand and their acknowledgements, in one step, and reports them in the given order.
func (s *Service) remove(ballots ...*entry) {
	s.together(ballots)
	s.index++
	for _, b := range ballots {
		e := b.election
		delete(s.entries, b.key)
		e.ballots = slices.DeleteFunc(e.ballots, func(o *entry) bool { return o == b })
		b.session.entries = slices.DeleteFunc(b.session.entries, func(o *entry) bool { return o == b })
	}
	for _, b := range ballots {
		e := b.election
		if e.holder == b {
			s.lead(e, nil, store.Leader{})
		}
		s.changed(b.key)
		if len(e.ballots) == 0 {
			delete(s.elections, e.name)
		}
	}
}

func (s *Service) lead(e *election, holder *entry, leader store.Leader) {
	e.holder, e.leader = holder, leader
	s.tell(Event{Kind: Led, Election: e.name, Leader: leader})
	s.changed(leaderKey(e.name))
}

// Delete removes a ballot, as an operator might, if it stands.
func (s *Service) Delete(election string, token uint64) {
	s.locked(func() { s.withdraw(EntryKey(election, token)) })
}

// EntryKey is the key of a ballot.
func EntryKey(election string, token uint64) string { return fmt.Sprintf("%s/%d", election, token) }

// mark asks the owner of a ballot to resign.
func (s *Service) mark(election string, token uint64) {
	if b := s.entries[EntryKey(election, token)]; b != nil && !b.resign {
		b.resign = true
		s.index++
		s.changed(b.key)
	}
}

// withdraw removes a ballot, if it stands.
func (s *Service) withdraw(key string) {
	if b, ok := s.entries[key]; ok {
		s.remove(b)
	}
}

// void removes the ballot that a session cast with the nonce, and makes later requests to cast it fail.
func (s *Service) void(id uint64, n engine.Nonce) error {
	sess, ok := s.sessions[id]
	if !ok {
		return engine.ErrOver
	}
	sess.void[n.Slot] = max(sess.void[n.Slot], n.Turn)
	if b := sess.find(n.Name); b != nil {
		s.tell(Event{Kind: VoidFound, Election: b.election.name, Nonce: n.Name})
		s.remove(b)
	}
	return nil
}

// place returns what is ahead of a ballot that stands.
func (b *entry) place() engine.Place {
	if i := slices.Index(b.election.ballots, b); i > 0 {
		return engine.Place{Nearest: b.election.ballots[i-1].key, More: i > 1}
	}
	return engine.Place{}
}

func (s *Service) ahead(key string) (engine.Place, error) {
	b, ok := s.entries[key]
	if !ok {
		return engine.Place{}, engine.ErrGone
	}
	return b.place(), nil
}

// first returns the state of the ballot that is first in an election.
func (s *Service) first(name string) engine.State {
	if e, ok := s.elections[name]; ok {
		return s.state(e.ballots[0].key)
	}
	return engine.State{}
}

// acknowledge publishes the value of a ballot, if the ballot stands and is first.
func (s *Service) acknowledge(key, value string) (revision uint64, err error) {
	b, ok := s.entries[key]
	switch {
	case !ok:
		s.tell(Event{Kind: AcknowledgementRefused})
		return 0, engine.ErrGone
	case b.election.ballots[0] != b:
		return 0, store.ErrNotFirst
	}
	s.index++
	s.lead(b.election, b, store.Leader{Value: value, Revision: s.index})
	if !b.led {
		b.led = true
		s.changed(b.key)
	}
	return s.index, nil
}

func (s *Service) standing(name string) []store.Standing {
	e, ok := s.elections[name]
	if !ok {
		return nil
	}
	var list []store.Standing
	for _, b := range e.ballots {
		list = append(list, store.Standing{Value: b.value, Token: b.token, Asked: b.resign})
	}
	return list
}

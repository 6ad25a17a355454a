package reference

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Service is the coordination service: keys that belong to sessions, and watches on them. It knows no elections; what
// elections need is in [Store].
type Service struct {
	flaw Flaw // of the stores that are opened on it

	mu       sync.Mutex
	index    uint64 // of the last change; guarded by mu, as are all below
	opened   uint64 // stores and nonces so far
	keys     map[string]*key
	sessions map[uint64]*session
	watches  map[string]chan struct{} // by key, and by directory with its slash; closed at the next change
	before   map[string]store.Leader  // what stood at an acknowledgement's key before, which an old replica shows
	counts   map[string]uint64        // ballots of an election since its keys were last removed
	tokens   map[string][]uint64      // that were taken, by directory, of ballots that are not visible yet: TokenBeforeBallot

	stores []*Store // all that were opened; guarded by mu too

	over context.Context // ended by End
	end  context.CancelFunc
	left sync.WaitGroup // what flawed stores leave running until then
}

// key is immutable.
type key struct {
	name, value       string
	session           uint64
	owner             uint64 // of an acknowledgement: when its ballot was created
	created, modified uint64
	count             uint64 // of the election's ballots, this one included
	asked             bool   // an operator has asked its owner to resign
}

type session struct {
	id      uint64
	ttl     time.Duration
	touched time.Time
	expiry  *time.Timer
}

// NewService returns a service whose stores have the flaw.
func NewService(flaw Flaw) *Service {
	s := &Service{
		flaw: flaw, keys: map[string]*key{}, sessions: map[uint64]*session{}, watches: map[string]chan struct{}{},
		before: map[string]store.Leader{}, counts: map[string]uint64{},
		tokens: map[string][]uint64{},
	}
	s.over, s.end = context.WithCancel(context.Background())
	return s
}

// End ends all that flawed stores have left running, and calls that hang.
func (s *Service) End() {
	s.end()
	s.mu.Lock()
	stores := s.stores
	s.mu.Unlock()
	for _, st := range stores {
		st.life.Close()
		st.life.Stop()
	}
	s.left.Wait()
}

// leave leaves a goroutine behind.
func (s *Service) leave() { s.left.Go(func() { <-s.over.Done() }) }

// add adds a store, and returns its number.
func (s *Service) add(st *Store) uint64 {
	s.mu.Lock()
	s.stores = append(s.stores, st)
	s.mu.Unlock()
	return s.number()
}

// Clear removes all keys of an election, as an operator does.
func (s *Service) Clear(election string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.keys {
		if name == election || strings.HasPrefix(name, election+"/") {
			s.remove(name)
		}
	}
	delete(s.counts, ballots(election))
}

func (s *Service) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return s.opened
}

func (s *Service) open(ttl time.Duration) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	sess := &session{id: s.index, ttl: ttl, touched: time.Now()}
	s.sessions[sess.id] = sess
	sess.expiry = time.AfterFunc(ttl, func() { s.expire(sess) })
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

func (s *Service) expire(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := sess.ttl - time.Since(sess.touched); left > 0 { // touched while the timer fired
		sess.expiry.Reset(left)
		return
	}
	s.expel(sess.id)
}

// drop ends a session with all its keys.
func (s *Service) drop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expel(id)
}

func (s *Service) expel(id uint64) {
	sess, ok := s.sessions[id]
	if !ok {
		return
	}
	sess.expiry.Stop()
	delete(s.sessions, id)
	for name, k := range s.keys {
		if k.session == id {
			s.remove(name)
		}
	}
}

// create makes a key, or returns the one that is there. It returns nil if the session does not exist.
func (s *Service) create(id uint64, name, value string) *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[id] == nil {
		return nil
	}
	if k := s.keys[name]; k != nil {
		return k
	}
	s.counts[dir(name)]++
	return s.put(id, 0, name, value)
}

// reserve takes a token for a ballot that is not visible yet.
func (s *Service) reserve(dir string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	s.tokens[dir] = append(s.tokens[dir], s.index)
	return s.index
}

// crowded reports whether a token is the lowest of many that were taken for ballots which are not visible yet.
func (s *Service) crowded(dir string, token uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens[dir]) > 10 && s.tokens[dir][0] == token
}

// createWith is create with a token that was reserved.
func (s *Service) createWith(id uint64, name, value string, token uint64) *key {
	k := s.create(id, name, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[dir(name)] = slices.DeleteFunc(s.tokens[dir(name)], func(o uint64) bool { return o == token })
	if k == nil || s.keys[name] != k || k.created < token {
		return k
	}
	early := *k
	early.created = token
	s.keys[name] = &early
	return &early
}

// put writes a key. The caller holds mu.
func (s *Service) put(id, owner uint64, name, value string) *key {
	s.index++
	k := &key{name: name, value: value, session: id, owner: owner, created: s.index, modified: s.index, count: s.counts[dir(name)]}
	if old := s.keys[name]; old != nil {
		k.created = old.created
	}
	s.before[name] = leaderOf(s.keys[name])
	s.keys[name] = k
	s.changed(name)
	return k
}

// remove removes a key. The caller holds mu.
func (s *Service) remove(name string) {
	if s.keys[name] == nil {
		return
	}
	s.index++
	s.before[name] = leaderOf(s.keys[name])
	delete(s.keys, name)
	s.changed(name)
}

// acknowledge writes an election's acknowledgement if the condition holds, and returns it, or nil if it does not. An id
// of 0 is that of no session.
func (s *Service) acknowledge(condition func() bool, id, owner uint64, election, value string) *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !condition() || id != 0 && s.sessions[id] == nil {
		return nil
	}
	return s.put(id, owner, election, value)
}

// stands reports whether a key is there that was created at the index. It is a condition.
func (s *Service) stands(name string, created uint64) bool {
	k := s.keys[name]
	return k != nil && k.created == created
}

// removeBallot removes a ballot and an acknowledgement, each if its condition holds.
func (s *Service) removeBallot(name string, mine func(*key) bool, election string, last func(*key) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[name]; k != nil && mine(k) {
		s.remove(name)
	}
	if k := s.keys[election]; k != nil && last(k) {
		s.remove(election)
	}
}

// ask marks a key.
func (s *Service) ask(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[name]; k != nil && !k.asked {
		asked := *k
		asked.asked = true
		s.index++
		s.keys[name] = &asked
		s.changed(name)
	}
}

// get returns a key, nil if there is none, and a channel that is closed when it changes.
func (s *Service) get(name string) (*key, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[name], s.watch(name)
}

// watch returns a channel that is closed when a key, or one in a directory, changes. The caller holds mu.
func (s *Service) watch(name string) <-chan struct{} {
	if s.watches[name] == nil {
		s.watches[name] = make(chan struct{})
	}
	return s.watches[name]
}

// changed tells those that watch a key or its directory. The caller holds mu.
func (s *Service) changed(name string) {
	for _, watched := range []string{name, dir(name)} {
		if w := s.watches[watched]; w != nil {
			close(w)
			delete(s.watches, watched)
		}
	}
}

// list returns the keys of a directory in the order of their creation, and a channel that is closed when it changes.
func (s *Service) list(dir string) ([]*key, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*key
	for name, k := range s.keys {
		if strings.HasPrefix(name, dir) {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *key) int { return int(a.created) - int(b.created) })
	return list, s.watch(dir)
}

// replica returns what an acknowledgement's key held before its last change.
func (s *Service) replica(name string) store.Leader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before[name]
}

func leaderOf(k *key) store.Leader {
	if k == nil {
		return store.Leader{}
	}
	return store.Leader{Value: k.value, Revision: k.modified}
}

// ballots is the directory of an election's ballots. Its acknowledgement is at the election's name.
func ballots(election string) string { return election + "/_ballots/" }

func dir(name string) string { return name[:strings.LastIndexByte(name, '/')+1] }

// falling returns a name for each number: the higher the number, the lower the name, so that the order of names is
// never that of creation.
func falling(number uint64) string { return fmt.Sprintf("%016x", ^number) }

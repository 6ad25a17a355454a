// Package server is a service for elections: an HTTP server that keeps sessions, queues of entries and acknowledgements
// in memory. The driver of package httpstore is its client.
//
// Each request is a POST with a [Request], and its answer an [Answer]. All but watch are carried out in one step. A
// request may come late, or twice: enter is known by its nonce, and all others change nothing the second time.
package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is the body of a request. Each operation uses some of its fields.
type Request struct {
	Session, Election, Key, Nonce string
	Slot                          int    // of a nonce, with its turn
	Turn                          uint64 // of a nonce; or of an acknowledgement among those of its entry
	Token                         uint64
	Value                         []byte
	TTL                           time.Duration
	Watches                       []Watch
	Wait                          time.Duration // for how long watch waits for a change of any
	Poll                          string        // ends the wait of the request before that has the same
}

// Watch is a key, and the version that the watcher knows.
type Watch struct {
	Key     string
	Version uint64
}

// Answer is the body of an answer.
type Answer struct {
	Session, Key, Nearest, Nonce string
	More, Resign                 bool
	Token, Version               uint64 // Version is that of a key's state: the index of its last change, 0 if there is none
	Value                        []byte
	Ballots                      []Ballot
	Index                        uint64         // of the last change, when the states were read
	States                       map[int]Answer // those that are not as the watcher knows them, by the number of the watch
}

// Unknown is the version of a watcher that knows none.
const Unknown = math.MaxUint64

// Ballot is an entry that stands.
type Ballot struct {
	Value  []byte
	Token  uint64
	Resign bool
}

// The statuses of refusals.
const (
	Over     = http.StatusNotFound // there is no such session
	Gone     = http.StatusGone     // there is no such entry
	Void     = http.StatusConflict // the nonce is void, or a later request has been carried out
	Starting = http.StatusTooEarly // no gateway says so: the leases of sessions before the start may not have ended
)

// Header is in every answer of a server, and not in those of gateways before it.
const Header = "Httpstore"

// refusal is the status of an answer to a request that was not carried out.
type refusal int

func (r refusal) Error() string { return http.StatusText(int(r)) }

// Server is the service. It is an http.Handler.
type Server struct {
	longest time.Duration
	began   time.Time

	mu        sync.Mutex
	index     uint64 // guarded by mu, as are all below: of the last change
	sessions  map[string]*session
	elections map[string]*election
	entries   map[string]*entry
	waiting   map[string]map[chan struct{}]bool // by key: the channels of those who wait for its change
	polls     map[string]chan struct{}          // by poll: the channel of the last one
}

type session struct {
	id      string
	ttl     time.Duration
	renewed time.Time
	expiry  *time.Timer
	void    map[int]uint64 // by slot: this turn and all before it
	entries map[string]*entry
}

type election struct {
	queue    []*entry
	holder   *entry // nil if there is no acknowledgement
	value    []byte
	revision uint64
}

type entry struct {
	Answer   // its state
	election string
	session  *session
	turn     uint64 // of its last acknowledgement
}

// New returns a server that grants sessions of a TTL of up to longest. It keeps nothing on disk: so its indexes begin
// with the time, which must not be set back, and for that long after its start it opens no session, while leases that an
// earlier one granted end.
func New(longest time.Duration) *Server {
	now := time.Now()
	return &Server{
		longest: longest, began: now, index: uint64(now.UnixMicro()),
		sessions: map[string]*session{}, elections: map[string]*election{}, entries: map[string]*entry{},
		waiting: map[string]map[chan struct{}]bool{}, polls: map[string]chan struct{}{},
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(Header, "1")
	var q Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := s.answer(r.Context(), r.URL.Path, q)
	if status := refusal(0); errors.As(err, &status) {
		http.Error(w, err.Error(), int(status))
		return
	} else if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(a) // the client is gone otherwise
}

func (s *Server) answer(ctx context.Context, path string, q Request) (a Answer, err error) {
	if path == "/watch" {
		return s.watch(ctx, q), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch path {
	case "/confirm":
		return a, nil
	case "/open":
		return s.open(q.TTL)
	case "/ahead":
		return s.ahead(q.Key)
	case "/first":
		return s.first(q.Election), nil
	case "/ballots":
		return s.ballots(q.Election), nil
	case "/mark":
		return a, s.mark(q.Election, q.Token)
	case "/clear":
		s.clear(q.Election)
		return a, nil
	}
	sess := s.sessions[q.Session]
	if sess == nil {
		return a, refusal(Over)
	}
	switch path {
	case "/renew":
		sess.renewed = time.Now()
		sess.expiry.Reset(sess.ttl)
		return a, nil
	case "/end":
		s.end(sess)
		return a, nil
	case "/enter":
		return s.enter(sess, q)
	case "/void":
		sess.void[q.Slot] = max(sess.void[q.Slot], q.Turn)
		s.remove(func(e *entry) bool { return e.Nonce == q.Nonce }, sess.entries)
		return a, nil
	case "/acknowledge":
		return s.acknowledge(q)
	case "/remove":
		s.remove(func(e *entry) bool { return e.Key == q.Key }, sess.entries)
		return a, nil
	}
	return a, fmt.Errorf("no such request: %q", path)
}

func (s *Server) open(ttl time.Duration) (Answer, error) {
	switch {
	case time.Since(s.began) < s.longest:
		return Answer{}, refusal(Starting)
	case ttl <= 0 || ttl > s.longest:
		return Answer{}, fmt.Errorf("the ttl is %v, and not from 1ns to %v", ttl, s.longest)
	}
	sess := &session{id: rand.Text(), ttl: ttl, renewed: time.Now(), void: map[int]uint64{}, entries: map[string]*entry{}}
	sess.expiry = time.AfterFunc(ttl, func() { s.expire(sess) })
	s.sessions[sess.id] = sess
	return Answer{Session: sess.id}, nil
}

// expire ends a session whose TTL has passed.
func (s *Server) expire(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := sess.ttl - time.Since(sess.renewed); left > 0 { // renewed while the timer fired
		sess.expiry.Reset(left)
		return
	}
	s.end(sess)
}

func (s *Server) end(sess *session) {
	sess.expiry.Stop()
	delete(s.sessions, sess.id)
	s.remove(func(*entry) bool { return true }, sess.entries)
}

func (s *Server) enter(sess *session, q Request) (Answer, error) {
	if q.Turn <= sess.void[q.Slot] {
		return Answer{}, refusal(Void)
	}
	for key, e := range sess.entries {
		if e.Nonce == q.Nonce {
			return s.ahead(key)
		}
	}
	s.index++
	e := &entry{election: q.Election, session: sess}
	e.Answer = Answer{
		Session: sess.id, Key: fmt.Sprintf("%d/%s", s.index, q.Election), Nonce: q.Nonce,
		Token: s.index, Version: s.index, Value: q.Value,
	}
	if s.elections[q.Election] == nil {
		s.elections[q.Election] = &election{}
	}
	in := s.elections[q.Election]
	in.queue = append(in.queue, e)
	s.entries[e.Key], sess.entries[e.Key] = e, e
	return s.ahead(e.Key)
}

// ahead returns an entry with what is ahead of it.
func (s *Server) ahead(key string) (Answer, error) {
	e := s.entries[key]
	if e == nil {
		return Answer{}, refusal(Gone)
	}
	a, queue := e.Answer, s.elections[e.election].queue
	if i := slices.Index(queue, e); i > 0 {
		a.Nearest, a.More = queue[i-1].Key, i > 1
	}
	return a, nil
}

// acknowledge refuses a request that comes after a later one of the same entry.
func (s *Server) acknowledge(q Request) (Answer, error) {
	e := s.entries[q.Key]
	switch {
	case e == nil || e.session.id != q.Session:
		return Answer{}, refusal(Gone)
	case q.Turn <= e.turn:
		return Answer{}, refusal(Void)
	}
	s.index++
	e.turn = q.Turn
	in := s.elections[e.election]
	in.holder, in.value, in.revision = e, q.Value, s.index
	s.changed(LeaderKey(e.election))
	return Answer{Version: in.revision}, nil
}

// remove removes entries and their acknowledgements.
func (s *Server) remove(which func(*entry) bool, among map[string]*entry) {
	for _, e := range slices.Collect(maps.Values(among)) {
		if !which(e) {
			continue
		}
		s.index++
		delete(s.entries, e.Key)
		delete(e.session.entries, e.Key)
		in := s.elections[e.election]
		in.queue = slices.DeleteFunc(in.queue, func(o *entry) bool { return o == e })
		if in.holder == e {
			in.holder, in.value, in.revision = nil, nil, 0
			s.changed(LeaderKey(e.election))
		}
		if len(in.queue) == 0 {
			delete(s.elections, e.election)
		}
		s.changed(e.Key)
	}
}

// first returns the state of the entry that is first in a queue.
func (s *Server) first(name string) (a Answer) {
	if in := s.elections[name]; in != nil {
		return in.queue[0].Answer
	}
	return a
}

func (s *Server) ballots(name string) (a Answer) {
	if in := s.elections[name]; in != nil {
		for _, e := range in.queue {
			a.Ballots = append(a.Ballots, Ballot{e.Value, e.Token, e.Resign})
		}
	}
	return a
}

func (s *Server) mark(name string, token uint64) error {
	if e := s.entries[fmt.Sprintf("%d/%s", token, name)]; e != nil && !e.Resign {
		s.index++
		e.Resign, e.Version = true, s.index
		s.changed(e.Key)
	}
	return nil
}

// clear removes what there is of an election, or of all that begin with a name that ends with a slash.
func (s *Server) clear(name string) {
	s.remove(func(e *entry) bool {
		return e.election == name || strings.HasSuffix(name, "/") && strings.HasPrefix(e.election, name)
	}, s.entries)
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing/synctest"

	"github.com/go-leadership/leadership/store"
)

// scripted is a driver that does nothing by itself: each request waits until the test answers it. So every interleaving
// stands still.
type scripted struct {
	confirms atomic.Bool // Confirm waits for an answer, too
	firsts   atomic.Bool // First does
	deaf     atomic.Bool // requests outlast their contexts
	stopping func()      // is called when a watch is taken back, if it is set

	mu       sync.Mutex
	waiting  []*request       // guarded by mu, as are all below
	session  *scriptedSession // the one that was opened last
	sessions int
	asked    int // how many requests there were
	closed   bool
}

// request is a call of the driver.
type request struct {
	driver   *scripted
	op       string
	ctx      context.Context
	election string
	key      string // of an entry
	value    string
	nonce    Nonce
	removal  Removal
	led      []Removal
	tell     Tell
	stopped  bool // its watch was taken back; guarded by the scene's mu
	reply    chan answer
}

type answer struct {
	err      error
	entry    Entry
	place    Place
	revision uint64
	stream   uint64
	list     []store.Standing
	peer     Peer
	first    State
}

func (s *scripted) ask(ctx context.Context, r *request) answer {
	r.driver, r.ctx, r.reply = s, ctx, make(chan answer, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, r)
	s.asked++
	s.mu.Unlock()
	select {
	case a := <-r.reply:
		return a
	case <-ctx.Done():
		if s.deaf.Load() {
			return <-r.reply
		}
		s.take(r)
		return answer{err: fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))}
	}
}

func (s *scripted) take(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(o *request) bool { return o == r })
}

func (s *scripted) all() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waiting)
}

// answer answers and waits until everything is at rest.
func (r *request) answer(a answer) {
	r.driver.take(r)
	r.reply <- a
	synctest.Wait()
}

// fail answers with an error.
func (r *request) fail(err error) { r.answer(answer{err: err}) }

// shows tells a state of the key and says that the watch is set, on stream 1 unless another is given.
func (r *request) shows(state State, stream ...uint64) *request {
	r.tell(News{State: &state})
	a := answer{stream: 1}
	if len(stream) > 0 {
		a.stream = stream[0]
	}
	r.answer(a)
	return r
}

// tells tells news of a watch that is set.
func (r *request) tells(n News) { r.tell(n); synctest.Wait() }

// goes tells that the entry has gone.
func (r *request) goes() { r.tells(News{State: &State{}}) }

func (r *request) isStopped() bool {
	r.driver.mu.Lock()
	defer r.driver.mu.Unlock()
	return r.stopped
}

func (s *scripted) Open(ctx context.Context) (Session, Proof, error) {
	sent := store.Now()
	a := s.ask(ctx, &request{op: "Open"})
	if a.err != nil {
		return nil, Proof{}, a.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	s.session = &scriptedSession{driver: s, id: strconv.Itoa(s.sessions), over: make(chan error)}
	return s.session, Proof{Sent: sent, Valid: ttl * 2 / 3}, nil
}

func (s *scripted) watch(ctx context.Context, r *request) (Watch, error) {
	a := s.ask(ctx, r)
	return Watch{Stream: a.stream, Stop: func() {
		if s.stopping != nil {
			s.stopping()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.stopped {
			panic("a watch is stopped twice")
		}
		r.stopped = true
	}}, a.err
}

func (s *scripted) WatchEntry(ctx context.Context, key string, tell Tell) (Watch, error) {
	return s.watch(ctx, &request{op: "Entry", key: key, tell: tell})
}

func (s *scripted) WatchLeader(ctx context.Context, election string, tell Tell) (Watch, error) {
	return s.watch(ctx, &request{op: "Leader", election: election, tell: tell})
}

func (s *scripted) Ahead(ctx context.Context, e Entry) (Place, error) {
	a := s.ask(ctx, &request{op: "Ahead", election: e.Election, key: e.Key})
	return a.place, a.err
}

// First answers at once that there is none, unless the test looks at what the engine asks.
func (s *scripted) First(ctx context.Context, election string) (State, error) {
	if !s.firsts.Load() {
		return State{}, nil
	}
	a := s.ask(ctx, &request{op: "First", election: election})
	return a.first, a.err
}

func (s *scripted) Confirm(ctx context.Context) error {
	if s.confirms.Load() {
		return s.ask(ctx, &request{op: "Confirm"}).err
	}
	return nil
}

func (s *scripted) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	a := s.ask(ctx, &request{op: "Ballots", election: election})
	return a.list, a.err
}

func (s *scripted) RequestResignation(ctx context.Context, election string, token uint64) error {
	return s.ask(ctx, &request{op: "RequestResignation", election: election, key: strconv.FormatUint(token, 10)}).err
}

func (s *scripted) Elections(context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

func (s *scripted) Clear(ctx context.Context, election string) error {
	return s.ask(ctx, &request{op: "Clear", election: election}).err
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

type scriptedSession struct {
	driver *scripted
	id     string
	over   chan error // what Keep returns
	renew  func(Proof)
	let    bool // Keep's context has ended
}

func (d *scriptedSession) ID() string { return "session " + d.id }

func (d *scriptedSession) Handover() []byte { return []byte("of " + d.id) }

func (d *scriptedSession) Keep(ctx context.Context, renewed func(Proof)) error {
	d.renew = renewed
	select {
	case err := <-d.over:
		return err
	case <-ctx.Done():
		d.let = true
		return ctx.Err()
	}
}

// ends makes Keep return.
func (d *scriptedSession) ends(err error) { d.over <- err; synctest.Wait() }

func (d *scriptedSession) End(ctx context.Context, led []Removal) error {
	return d.driver.ask(ctx, &request{op: "End", value: d.id, led: led}).err
}

func (d *scriptedSession) Enter(ctx context.Context, election string, n Nonce, value string) (Entry, error) {
	a := d.driver.ask(ctx, &request{op: "Enter", election: election, nonce: n, value: value})
	return a.entry, a.err
}

func (d *scriptedSession) Void(ctx context.Context, election string, n Nonce) error {
	return d.driver.ask(ctx, &request{op: "Void", election: election, nonce: n}).err
}

func (d *scriptedSession) Acknowledge(ctx context.Context, e Entry, value string) (uint64, error) {
	a := d.driver.ask(ctx, &request{op: "Acknowledge", election: e.Election, key: e.Key, value: value})
	return a.revision, a.err
}

func (d *scriptedSession) Remove(ctx context.Context, r Removal) error {
	return d.driver.ask(ctx, &request{op: "Remove", election: r.Election, key: r.Key, removal: r}).err
}

package engine

import (
	"context"
	"strconv"
	"testing/synctest"

	"github.com/go-leadership/leadership/store"
)

// The driver.

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

package httpstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/examples/httpstore/server"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// session implements engine.Session.
type session struct {
	driver *driver
	id     string
	turn   atomic.Uint64 // of the last acknowledgement
}

// Open implements engine.Driver. The first request makes a connection, so that making it takes nothing from the lease. A
// session whose answer is lost has no entries, and expires.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	if _, err := d.send(ctx, d.renewals, "confirm", server.Request{}); err != nil {
		return nil, engine.Proof{}, err
	}
	sent := store.Now()
	a, err := d.send(ctx, d.renewals, "open", server.Request{TTL: d.TTL})
	if err != nil {
		return nil, engine.Proof{}, err
	}
	return &session{driver: d, id: a.Session}, d.proof(sent), nil
}

func (d *driver) proof(sent store.Instant) engine.Proof {
	return engine.Proof{Sent: sent, Valid: d.TTL - d.Grace}
}

// ID implements engine.Session.
func (s *session) ID() string { return s.id }

// Keep implements engine.Session. It renews the session every sixth of the TTL, whether or not the last answer has come:
// one that is lost costs no lease.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	all, stop := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	defer renewals.Wait()
	defer stop()
	over := make(chan struct{}, 1)
	ticker := time.NewTicker(d.TTL / 6)
	defer ticker.Stop()
	for {
		renewals.Go(func() {
			sent := store.Now()
			_, err := d.send(all, d.renewals, "renew", server.Request{Session: s.id})
			switch {
			case err == nil:
				renewed(d.proof(sent))
			case errors.Is(err, engine.ErrOver):
				select {
				case over <- struct{}{}:
				default:
				}
			}
		})
		select {
		case <-ticker.C:
		case <-over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// End implements engine.Session. If no answer comes before ctx ends, the session expires.
func (s *session) End(ctx context.Context, _ []engine.Removal) error {
	for {
		err := s.ask(ctx, "end", server.Request{})
		switch {
		case errors.Is(err, engine.ErrOver):
			return nil
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome), ctx.Err() != nil:
			return err
		}
		pause(ctx, s.driver.TTL/40)
	}
}

// ask sends a request of the session, of which only the outcome counts.
func (s *session) ask(ctx context.Context, operation string, q server.Request) error {
	q.Session = s.id
	_, err := s.driver.ask(ctx, operation, q)
	return err
}

// Enter implements engine.Session.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	a, err := s.driver.ask(ctx, "enter", server.Request{
		Session: s.id, Election: s.driver.name(election), Nonce: n.Name, Slot: n.Slot, Turn: n.Turn, Value: []byte(value),
	})
	return engine.Entry{Key: a.Key, Token: a.Token, Place: engine.Place{Nearest: a.Nearest, More: a.More}}, err
}

// Void implements engine.Session.
func (s *session) Void(ctx context.Context, _ string, n engine.Nonce) error {
	return s.ask(ctx, "void", server.Request{Nonce: n.Name, Slot: n.Slot, Turn: n.Turn})
}

// Acknowledge implements engine.Session.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	a, err := s.driver.ask(ctx, "acknowledge", server.Request{
		Session: s.id, Key: e.Key, Turn: s.turn.Add(1), Value: []byte(value),
	})
	return a.Version, err
}

// Remove implements engine.Session.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	return s.ask(ctx, "remove", server.Request{Key: r.Key})
}

package zookeeper

import (
	"context"
	"errors"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// ErrRestored is errRestored.
var ErrRestored = errRestored

// NewDriver returns a driver without a store.
func NewDriver(config Config) (engine.Driver, error) { return newDriver(config) }

// Break breaks the connection of a driver, if it has one.
func Break(d engine.Driver) {
	if l, err := d.(*driver).up(context.Background()); err == nil {
		l.wire.end(errors.New("broken by a test"))
	}
}

// Driver returns the store's driver.
func (s *Store) Driver() engine.Driver { return s.driver }

// connected waits for a connection as the engine does, for longer than a call of the driver.
func (s *Store) connected(ctx context.Context) (*link, error) {
	for {
		l, err := s.driver.up(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrDenied) {
			return l, err
		}
	}
}

// Session returns the session of the store's connection.
func (s *Store) Session(ctx context.Context) (engine.Session, error) {
	l, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	return l.session, nil
}

// Watches returns how many watches the store has. A node that only the server watches counts as one.
func (s *Store) Watches() (n int) {
	l, err := s.driver.up(context.Background())
	if err != nil {
		return -1
	}
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	for _, on := range l.watches.set {
		n += max(1, len(on.list))
	}
	return n
}

// Armed reports whether the server is known to have a watch on a node.
func (s *Store) Armed(ctx context.Context, path string) bool {
	l, err := s.connected(ctx)
	if err != nil {
		return false
	}
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	on := l.watches.set[path]
	return on != nil && on.armed
}

// Creations returns how many creations of the present session the engine does not know the outcome of.
func (s *Store) Creations(ctx context.Context) (n int, err error) {
	l, err := s.connected(ctx)
	if err == nil {
		l.session.creations.Range(func(any, any) bool { n++; return true })
	}
	return n, err
}

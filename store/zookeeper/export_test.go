package zookeeper

import (
	"context"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// NewDriver returns a driver without a store.
func NewDriver(config Config) (engine.Driver, error) { return newDriver(config) }

// Driver returns the store's driver.
func (s *Store) Driver() engine.Driver { return s.driver }

// Session returns the session of the store's connection.
func (s *Store) Session(ctx context.Context) (engine.Session, error) { return s.driver.await(ctx) }

// Watches returns how many watches the store has.
func (s *Store) Watches() (n int) {
	w := &s.driver.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range w.set {
		n += len(set)
	}
	return n
}

// Creations returns how many creations of the present session the engine does not know the outcome of.
func (s *Store) Creations(ctx context.Context) (n int, err error) {
	sess, err := s.driver.await(ctx)
	if err == nil {
		sess.creations.Range(func(any, any) bool { n++; return true })
	}
	return n, err
}

// Abandon gives up the present session.
func (s *Store) Abandon(reason error) {
	d := s.driver
	d.set(func() { d.abandon(reason) })
	d.cut(errAbandoned)
}

// Conn returns the connection of the store.
func (s *Store) Conn() *zk.Conn { return s.driver.conn }

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// service is a coordination service with its store and its plain client: all that differs between the runs of a
// benchmark.
type service struct {
	name  string
	start func(b *testing.B) (address string) // ends with the benchmark
	open  func(address string, ttl time.Duration, dial dialFunc) (store.Store, error)
	talk  func(m *metered) conversation // the protocol of the service's connections
	// connect returns a session of the plain client, which ends with the benchmark.
	connect func(b *testing.B, address string, dial dialFunc) plain
	peer    peerKind
	crashes []crash
}

// plain is a session of the plain client, with which floors are measured.
type plain interface {
	create(ctx context.Context, key, value string) error
	delete(ctx context.Context, key string) error
	// watch returns once the watch is set: the key's next change fires it.
	watch(ctx context.Context, key string) (<-chan told, error)
	// enter does the least that entering a queue takes: it creates a key with a new name, and reads its position.
	enter(ctx context.Context) (key string, err error)
}

// told is a change of a key: when the watch fired, and the value, empty if the key was deleted.
type told struct {
	at    time.Time
	value string
	err   error
}

// peerKind is the plain client's own lock or election.
type peerKind struct {
	name string
	new  func(b *testing.B, address string, dial dialFunc) peer
	rest time.Duration // for how long it has to wait before it reaches its best time
}

// peer is a lock, or an election used as one, with its own session.
type peer interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

// crash is what a store documents: the successor of a crashed leader leads within the bound.
type crash struct{ ttl, bound time.Duration }

var services = []*service{zooKeeper, etcdService, consulService}

// serviceNamed returns a service.
func serviceNamed(name string) *service {
	for _, s := range services {
		if s.name == name {
			return s
		}
	}
	panic("no service " + name)
}

// server is a service that runs.
type server struct {
	*service
	address string
}

// onEachService starts each service and measures with it.
func onEachService(b *testing.B, measure func(b *testing.B, s *server)) {
	for _, s := range services {
		b.Run(s.name, func(b *testing.B) { measure(b, &server{s, s.start(b)}) })
	}
}

// ttl is that of all sessions unless a benchmark says otherwise: the library's default.
const ttl = 10 * time.Second

// openStore opens a store with its own session, which ends with the benchmark.
func (s *server) openStore(b *testing.B, ttl time.Duration, w *wire) store.Store {
	b.Helper()
	st, err := s.open(s.address, ttl, w.dial)
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	return st
}

// watchdog is how long anything may take before a benchmark fails.
const watchdog = time.Minute

// receive waits for a value, and fails the benchmark if none comes.
func receive[T any](b *testing.B, ch <-chan T, what string) T {
	b.Helper()
	timer := time.NewTimer(watchdog)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		b.Fatalf("waited %v for %s", watchdog, what)
		panic("unreachable")
	}
}

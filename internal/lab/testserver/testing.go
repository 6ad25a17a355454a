package testserver

import (
	"context"
	"os"
	"testing"
	"time"
)

// NewZooKeeper starts a service for a test, which fails if it is not ready
// within a minute. When the test ends, so does the service. If the test
// failed, the end of each member's log becomes part of its output.
func NewZooKeeper(t testing.TB, cfg ZooKeeperConfig) *ZooKeeper {
	t.Helper()
	return startForTest(t, cfg, StartZooKeeper)
}

// NewEtcd does for etcd what [NewZooKeeper] does for ZooKeeper.
func NewEtcd(t testing.TB, cfg EtcdConfig) *Etcd {
	t.Helper()
	return startForTest(t, cfg, StartEtcd)
}

// NewConsul does for Consul what [NewZooKeeper] does for ZooKeeper.
func NewConsul(t testing.TB, cfg ConsulConfig) *Consul {
	t.Helper()
	return startForTest(t, cfg, StartConsul)
}

// NewPostgres does for PostgreSQL what [NewZooKeeper] does for ZooKeeper.
func NewPostgres(t testing.TB, cfg PostgresConfig) *Postgres {
	t.Helper()
	return startForTest(t, cfg, StartPostgres)
}

type loggingCloser interface {
	logTo(t testing.TB)
	Close() error
}

func startForTest[C any, S loggingCloser](t testing.TB, cfg C, start func(context.Context, C) (S, error)) S {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.logTo(t)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing the service: %v", err)
		}
	})
	return s
}

func (s *service) logTo(t testing.TB) {
	const lines = 60
	for i, m := range s.members {
		log, err := os.ReadFile(m.logFile())
		if err != nil {
			t.Logf("log of member %d: %v", i, err)
			continue
		}
		t.Logf("end of the log of member %d at %s:\n%s", i, m.addr, tail(log, lines))
	}
}

package testserver

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
)

// startTimeout bounds the start of a service in a test. A start takes seconds;
// on a machine that is starved it takes longer.
const startTimeout = 2 * time.Minute

// NewZooKeeper starts a service for a test, which fails if it is not ready
// within two minutes, and is skipped if not all tests are run, see
// [whole.Need]. When the test ends, so does the service. If the test
// failed, its output says where the logs are kept; see KeepLogs.
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

// NewCertificates makes certificates for a server that a test configures itself. They last as long as the test.
func NewCertificates(t testing.TB) Certificates {
	t.Helper()
	c, err := makeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var both []byte
	for _, name := range []string{c.serverKey, c.serverCert} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, content...)
	}
	c.Server = filepath.Join(filepath.Dir(c.CACert), "both.pem")
	if err := os.WriteFile(c.Server, both, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

type loggingCloser interface {
	KeepLogs() (report string)
	Close() error
}

func startForTest[C any, S loggingCloser](t testing.TB, cfg C, start func(context.Context, C) (S, error)) S {
	t.Helper()
	whole.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.KeepLogs())
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing the service: %v", err)
		}
	})
	return s
}

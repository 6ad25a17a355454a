package all_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite ends the shared servers before goleak counts what is left.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	for _, end := range ends {
		_ = end()
	}
	return code
}

// ends closes the servers that run. It is read when no test runs any more.
var (
	ends   []func() error
	endsMu sync.Mutex
)

// shared returns a function that starts a server when it is first called: one for all tests that do it no harm.
func shared[C any, S interface{ Close() error }](start func(context.Context, C) (S, error), config C) func() (S, error) {
	return sync.OnceValues(func() (S, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		server, err := start(ctx, config)
		if err == nil {
			endsMu.Lock()
			ends = append(ends, server.Close)
			endsMu.Unlock()
		}
		return server, err
	})
}

// The servers grant: ZooKeeper, whose tick is 500 ms, sessions of 1 s to 10 s; etcd leases of 2 s and more.
var (
	sharedZooKeeper = shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{})
	sharedEtcd      = shared(testserver.StartEtcd, testserver.EtcdConfig{})
	sharedConsul    = shared(testserver.StartConsul, testserver.ConsulConfig{})
)

// address returns the host and port of the server for a kind of store, and a name for those in memory.
func address(t *testing.T, kind string) string {
	t.Helper()
	var addrs []string
	var err error
	switch kind {
	case "zookeeper":
		s, failed := sharedZooKeeper()
		if err = failed; err == nil {
			addrs = s.Addrs()
		}
	case "etcd":
		s, failed := sharedEtcd()
		if err = failed; err == nil {
			addrs = s.Addrs()
		}
	case "consul":
		s, failed := sharedConsul()
		if err = failed; err == nil {
			addrs = s.Addrs()
		}
	default:
		return "all"
	}
	require.NoError(t, err)
	return addrs[0]
}

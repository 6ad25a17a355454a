package etcd_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(helperVariable); where != "" {
		helper(where)
		return
	}
	goleak.VerifyTestMain(suite{m})
}

// suite ends the shared server before goleak counts what is left.
type suite struct{ *testing.M }

func (s suite) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // most of them wait most of the time
		panic(err)
	}
	code := s.M.Run()
	if shared.server != nil {
		_ = shared.server.Close()
	}
	return code
}

// shared is the one server of all tests that do it no harm; starting one for each would take longer than the tests.
var shared struct {
	once   sync.Once
	server *testserver.Etcd // written once, read by suite when no test runs any more
	err    error
}

// fast makes a server's writes spare the disk: the tests that use it are not about what survives a crash.
var fast = []string{"--unsafe-no-fsync"}

// sharedServer returns the server that most tests share: a single one that grants leases of 2 s and more. A test keeps
// to an election of its own, see newElection, and leaves the server as it was.
func sharedServer(t *testing.T) *testserver.Etcd {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		shared.server, shared.err = testserver.StartEtcd(ctx, testserver.EtcdConfig{Extra: fast})
	})
	require.NoError(t, shared.err)
	return shared.server
}

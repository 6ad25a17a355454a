package consul_test

import (
	"context"
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
	code := s.M.Run()
	plain.CloseIdleConnections()
	if shared.server != nil {
		_ = shared.server.Close()
	}
	return code
}

// shared is the one server of all tests that do it no harm; starting one for each would take longer than the tests.
var shared struct {
	once   sync.Once
	server *testserver.Consul // written once, read by suite when no test runs any more
	err    error
}

// sharedServer returns the server that most tests share. A test keeps to an election of its own, see newElection, and
// leaves the server as it was.
func sharedServer(t *testing.T) *testserver.Consul {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		shared.server, shared.err = testserver.StartConsul(ctx, testserver.ConsulConfig{})
	})
	require.NoError(t, shared.err)
	return shared.server
}

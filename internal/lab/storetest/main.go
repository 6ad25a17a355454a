package storetest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/lifeline"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Main is all that a TestMain does: it runs the tests, ends the servers that they share and what else must end, and
// checks that no goroutine is left. In a process that startLeader has started it leads instead.
func Main(m *testing.M, ends ...func()) {
	lifeline.Main() // of such a process
	if where := os.Getenv(leaderVariable); where != "" {
		fmt.Fprintln(os.Stderr, lead(where))
		os.Exit(1)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // stores log outages, and a failed test tells its own story
	goleak.VerifyTestMain(suite{m, ends})
}

// suite ends what must end before goleak counts what is left. If a test has failed, suite says how long the process stood
// still: then the machine might have been too slow.
type suite struct {
	*testing.M
	ends []func()
}

func (s suite) Run() int {
	meter := stall.Start()
	code := s.M.Run()
	meter.Stop()
	if code != 0 {
		fmt.Fprintln(os.Stderr, meter)
	}
	for _, end := range s.ends {
		end()
	}
	for _, server := range shared.servers {
		if s, ok := server.(interface{ KeepLogs() string }); ok && code != 0 {
			fmt.Fprintln(os.Stderr, s.KeepLogs())
		}
		_ = server.Close()
	}
	return code
}

// shared are the servers that run. They are ended when no test runs any more. If a test has failed, their logs are kept.
var shared struct {
	mu      sync.Mutex
	servers []io.Closer // guarded by mu while tests run
}

// Shared returns a function that gives a test the server which most tests of its package share. Starting a server for
// each test would take longer than the tests. The first call starts the server; Main ends it. A test uses an election of
// its own, see NewElection, and leaves the server as it was.
func Shared[C any, S interface{ Close() error }](start func(context.Context, C) (S, error), config C) func(testing.TB) S {
	once := sync.OnceValues(func() (S, error) {
		ctx, cancel := context.WithTimeout(context.Background(), Watchdog)
		defer cancel()
		server, err := start(ctx, config)
		if err == nil {
			shared.mu.Lock()
			defer shared.mu.Unlock()
			shared.servers = append(shared.servers, server)
		}
		return server, err
	})
	return func(t testing.TB) S {
		t.Helper()
		whole.Need(t)
		server, err := once()
		require.NoError(t, err)
		return server
	}
}

package storetest

import (
	"io"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/stretchr/testify/require"
)

// ServeLifeline serves a lifeline at a path until the end of the test.
func ServeLifeline(t testing.TB) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lifeline") // t.TempDir's path might be longer than an address may be
	require.NoError(t, err)
	path = dir + "/socket"
	listener, err := lifeline.Listen(path, false)
	require.NoError(t, err)
	s := lifeline.NewServer(listener, func(uint32) bool { return false }, slog.New(slog.NewTextHandler(t.Output(), nil)))
	served := make(chan struct{})
	go func() { defer close(served); s.Serve() }()
	t.Cleanup(func() { s.Close(); <-served; _ = os.RemoveAll(dir) })
	return path
}

// Lifeline kills a leader's process that has a lifeline, at the place or of its own, in each way that there is. The next
// in line must lead long before the TTL of the URL is over. It returns how long that took, in order.
func Lifeline(t *testing.T, url, place string) (took []time.Duration) {
	t.Helper()
	meter := stall.Watch(t)
	for _, die := range []func(*process) error{
		func(p *process) error { return p.Process.Kill() },
		func(p *process) error { return p.Process.Signal(syscall.SIGTERM) },
		func(p *process) error { _, err := io.WriteString(p.in, "panic\n"); return err },
		func(p *process) error { _, err := io.WriteString(p.in, "exit\n"); return err },
	} {
		election := NewElection()
		rivals := OpenURL(t, url)
		leader := startLeader(t, url+"&lifeline="+place, election)
		rival := Cast(t, rivals, election, "rival")
		require.NoError(t, die(leader))
		began := time.Now()
		require.NoError(t, rival.Wait(Soon(t)))
		took = append(took, time.Since(began))
		require.Less(t, took[len(took)-1], rivals.TTL()/2+meter.Stalled(), "%v", meter)
		require.NoError(t, rival.Withdraw(Soon(t)))
	}
	slices.Sort(took)
	return took
}

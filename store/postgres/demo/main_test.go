package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/demo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	demo.Child()
	goleak.VerifyTestMain(m)
}

// The whole demo. The test checks what happens, and in which order. The times are judged by `make demo`: here the bounds
// are wider, since tests of other packages run at the same time.
func TestDemo(t *testing.T) {
	dir, err := os.MkdirTemp("", "leadership-demo-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) // a server that root starts runs as another user
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err = run(ctx, "postgres", demo.Config{TTL: 8 * time.Second, Slack: 20 * time.Second, Out: &out})
	t.Logf("%s", &out)
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUnknownServer(t *testing.T) {
	require.EqualError(t, run(t.Context(), "paper", demo.Config{}),
		`there is no server for store "paper"; there is one for postgres`)
}

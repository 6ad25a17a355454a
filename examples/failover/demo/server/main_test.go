package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	demo.Child()
	goleak.VerifyTestMain(m)
}

// The whole demo, once on each server. The test checks what happens, and in which order. The times are judged by `make
// demo`: here the bounds are wider, since tests of other packages run at the same time.
func TestDemo(t *testing.T) {
	whole.Need(t)
	for kind := range servers {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			var out bytes.Buffer
			err := run(ctx, kind, demo.Config{TTL: 8 * time.Second, Slack: 20 * time.Second, Out: &out})
			t.Logf("%s", &out)
			require.NoError(t, err)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestUnknownServer(t *testing.T) {
	require.EqualError(t, run(t.Context(), "paper", demo.Config{}),
		`there is no server for store "paper"; there is one for consul, etcd, zookeeper`)
}

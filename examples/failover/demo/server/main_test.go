package main

import (
	"bytes"
	"context"
	"os"
	"sync"
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
// demo`: here the bounds are wider, and the TTL is longer, since tests of other packages run at the same time.
func TestDemo(t *testing.T) {
	whole.Need(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var demos sync.WaitGroup
	for kind := range servers {
		ttl := 20 * time.Second
		if kind == "consul" {
			ttl = 9 * time.Second // from 10 s on it takes twice the TTL
		}
		demos.Go(func() {
			t.Run(kind, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var out bytes.Buffer
				err := run(ctx, kind, demo.Config{TTL: ttl, Slack: 20 * time.Second, Out: &out})
				t.Logf("%s", &out)
				require.NoError(t, err)
			})
		})
	}
	demos.Wait()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUnknownServer(t *testing.T) {
	require.EqualError(t, run(t.Context(), "paper", demo.Config{}),
		`there is no server for store "paper"; there is one for consul, etcd, zookeeper`)
}

package file

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/internal/filefaults"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/stretchr/testify/require"
)

func TestDriver(t *testing.T) {
	for name, on := range map[string]bool{"direct": false, "on a line with delays": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ttl := 4 * time.Second // in which a busy machine renews many sessions
			if on {
				ttl *= 2
			}
			if on && testing.Short() {
				t.Skip("it takes half a minute: make test runs it")
			}
			config := completed(Config{Directory: t.TempDir() + "/store", TTL: ttl})
			drivertest.Run(t, drivertest.Harness{TTL: config.TTL, Open: func(context.Context) (engine.Driver, error) {
				config := config
				if on {
					config.faults = faulty.New()
					config.faults.Delay(2 * time.Millisecond)
				}
				return newDriver(config)
			}})
		})
	}
}

// harness is that of a directory.
func harness(t *testing.T, ttl time.Duration) conformance.Harness {
	config := Config{Directory: t.TempDir() + "/store", TTL: ttl}
	stores := &filefaults.Stores{}
	open := func(grace time.Duration) func(context.Context, conformance.DialFunc) (store.Store, error) {
		return func(ctx context.Context, _ conformance.DialFunc) (store.Store, error) {
			return stores.Open(ctx, func(ctx context.Context) (store.Store, error) {
				config := config
				config.Grace, config.faults = grace, filefaults.Of(ctx)
				return Open(config)
			})
		}
	}
	operator := sync.OnceValue(func() *Store {
		st, err := Open(config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	})
	return conformance.Harness{
		Open: open(0), OpenLeast: open(ttl / 12),
		Faults: func(st store.Store) conformance.Faults { return stores.Line(st) },
		Clear:  func(ctx context.Context, election string) error { return operator().Clear(ctx, election) },
		Restore: func(ctx context.Context, election string) (func() error, error) {
			path, kept := config.Directory+"/e/"+election, t.TempDir()+"/kept"
			return func() error {
				if err := os.Rename(path, kept+".before"); err != nil { // the store might still write in it
					return err
				}
				return exec.CommandContext(ctx, "mv", kept, path).Run()
			}, exec.CommandContext(ctx, "cp", "-a", path, kept).Run()
		},
		TTL: ttl, Expiry: ttl + 500*time.Millisecond,
	}
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite takes a minute: make test runs it")
	}
	conformance.Run(t, harness(t, time.Second))
}

package file

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/stretchr/testify/require"
)

// waiting are the cases of package drivertest that wait for a TTL.
var waiting = []string{"session-lasts", "session-stands-for-its-ttl", "proofs-count-from-the-request"}

// TestDriver runs the cases in a directory as it is, in memory mostly, and on a line with delays in one that needs syncs.
// The latter and those that wait are run only with all tests.
func TestDriver(t *testing.T) {
	for name, delay := range map[string]time.Duration{"direct": 0, "on a line with delays": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := completed(Config{Directory: t.TempDir() + "/store", TTL: 9 * time.Second})
			h := drivertest.Harness{TTL: config.TTL, Open: func(context.Context) (engine.Driver, error) {
				if delay == 0 {
					return newDriver(config)
				}
				config := config
				config.faults = faulty.New()
				config.faults.Delay(delay)
				return newDriverWith(config, kernel{}, durably)
			}}
			for _, c := range drivertest.Cases() {
				if !whole.Tests() && (delay > 0 || slices.Contains(waiting, c.Name)) {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					c.Check(t, h)
				})
			}
		})
	}
}

// harness is that of a directory as it is, in memory mostly: what syncs is in the tests with durably.
func harness(t *testing.T, ttl time.Duration) conformance.Harness {
	config := Config{Directory: t.TempDir() + "/store", TTL: ttl}
	stores := &faulty.Stores{}
	open := func(grace time.Duration) func(context.Context, conformance.DialFunc) (store.Store, error) {
		return func(ctx context.Context, _ conformance.DialFunc) (store.Store, error) {
			return stores.Open(ctx, func(ctx context.Context) (store.Store, error) {
				config := config
				config.Grace, config.faults = grace, faulty.Of(ctx)
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

// TestConformance runs the suite. The cases that count requests or goroutines run first, one by one. The others wait most
// of the time, and run beside each other.
func TestConformance(t *testing.T) {
	whole.Need(t)
	h := harness(t, 5*time.Second) // in which a busy machine renews many sessions
	var together []conformance.Case
	for _, c := range conformance.Cases() {
		if slices.Contains(c.Promises, "G6") || slices.Contains(c.Promises, "G7") {
			t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
		} else {
			together = append(together, c)
		}
	}
	t.Parallel()
	for _, c := range together {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Check(t, h)
		})
	}
}

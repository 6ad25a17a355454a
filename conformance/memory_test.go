package conformance_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
)

// onMemory is the harness of the in-memory store, with a service of its own.
func onMemory(ttl time.Duration) conformance.Harness {
	service := memory.NewService()
	return conformance.Harness{
		Open: func(context.Context, conformance.DialFunc) (store.Store, error) {
			return memory.Open(service, &memory.Config{TTL: ttl})
		},
		OpenLeast: func(context.Context, conformance.DialFunc) (store.Store, error) {
			return memory.Open(service, &memory.Config{TTL: ttl, Grace: ttl / 12})
		},
		Faults: func(st store.Store) conformance.Faults { return st.(*memory.Store).Faults() },
		Clear:  func(_ context.Context, election string) error { service.Clear(election); return nil },
		TTL:    ttl,
		Expiry: ttl,
	}
}

// The suite in real time. The cases mostly wait, so they run in parallel, except for those that count goroutines and
// requests. The TTL is 3 s, since a session of 1 s ends if the machine is busy for as long.
func TestMemory(t *testing.T) {
	ttl := 3 * time.Second
	if testing.Short() {
		ttl = time.Second
	}
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if !slices.Contains(c.Promises, "G6") && !slices.Contains(c.Promises, "G7") {
				t.Parallel()
			}
			c.Check(t, onMemory(ttl))
		})
	}
}

func TestMemoryInVirtualTime(t *testing.T) {
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Check(t, onMemory(10*time.Second)) })
		})
	}
}

package conformance_test

import (
	"context"
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

// The suite on the store in memory, in virtual time.
func TestMemory(t *testing.T) {
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Check(t, onMemory(10*time.Second)) })
		})
	}
}

package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/conformance/internal/reference"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder is a testing.TB that only remembers failures.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    string
}

func (r *recorder) Helper() {}
func (r *recorder) Fail()   { r.Errorf("failed") }
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.log += fmt.Sprintf(format, args...) + "\n"
}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// onReference is the harness of the reference store with a flaw.
func onReference(service *reference.Service) conformance.Harness {
	const ttl = 10 * time.Second
	opener := func(grace time.Duration) func(context.Context, conformance.DialFunc) (store.Store, error) {
		return func(context.Context, conformance.DialFunc) (store.Store, error) {
			return reference.Open(service, ttl, grace), nil
		}
	}
	return conformance.Harness{
		Open:      opener(ttl / 3),
		OpenLeast: opener(ttl / 12),
		Faults:    func(st store.Store) conformance.Faults { return st.(*reference.Store).Line() },
		Clear:     func(_ context.Context, election string) error { service.Clear(election); return nil },
		TTL:       ttl,
		Expiry:    ttl,
		Watchdog:  10 * ttl,
	}
}

// checkReference runs a case against the reference store with a flaw, in virtual time.
func checkReference(t *testing.T, c conformance.Case, flaw reference.Flaw) *recorder {
	r := &recorder{TB: t}
	synctest.Test(t, func(*testing.T) {
		service := reference.NewService(flaw)
		c.Check(r, onReference(service))
		service.End()
	})
	return r
}

func TestBrokenStoresNone(t *testing.T) {
	for _, c := range conformance.Cases() {
		r := checkReference(t, c, reference.None)
		if r.failed {
			t.Errorf("%s: %s", c.Name, r.log)
		}
	}
}

func TestBrokenStoresTry(t *testing.T) {
	for _, f := range reference.Flaws {
		t.Run(f.Does, func(t *testing.T) {
			var failed []string
			for _, c := range conformance.Cases() {
				r := checkReference(t, c, f.Flaw)
				if r.failed {
					failed = append(failed, c.Name)
				}
			}
			slices.Sort(failed)
			fmt.Printf("{reference.Flaw(%d), %q, %q}\n", f.Flaw, f.Does, failed)
		})
	}
	_ = assert.Contains
	_ = require.New
	_ = slices.Contains[[]int]
}

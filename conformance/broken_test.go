package conformance_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
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

// recorder is a conformance.TB that records failures. A program that is no test might have one like it.
type recorder struct {
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
		// If Close leaves sessions, every second of 30 rivals waits until one expires.
		Watchdog: 20 * ttl,
	}
}

// checkReference runs a case against the reference store with a flaw, in virtual time.
func checkReference(t *testing.T, c conformance.Case, flaw reference.Flaw) *recorder {
	r := &recorder{}
	synctest.Test(t, func(*testing.T) {
		service := reference.NewService(flaw)
		c.Check(r, onReference(service))
		service.End()
	})
	return r
}

var every = flag.Bool("every", false, "try every flaw with every case, not only with those that it fails")

// TestBrokenStores shows that the suite finds mistakes. The reference store passes it. With a flaw it fails the cases
// that caught lists, at least one of the promise that the flaw breaks. It passes all others, which run with -every and
// take minutes with the race detector.
func TestBrokenStores(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		for _, c := range conformance.Cases() {
			r := checkReference(t, c, reference.None)
			assert.False(t, r.failed, "%s: %s", c.Name, r.log)
		}
	})
	for _, f := range reference.Flaws {
		t.Run(f.Does, func(t *testing.T) {
			require.NotEmpty(t, caught[f.Flaw], "no case is known to catch it")
			var failed, promises []string
			for _, c := range conformance.Cases() {
				if !*every && !slices.Contains(caught[f.Flaw], c.Name) {
					continue
				}
				r := checkReference(t, c, f.Flaw)
				if !r.failed {
					continue
				}
				failed = append(failed, c.Name)
				promises = append(promises, c.Promises...)
				if !slices.Contains(caught[f.Flaw], c.Name) {
					t.Logf("%s: %s", c.Name, r.log)
				}
			}
			assert.ElementsMatch(t, caught[f.Flaw], failed)
			if f.Promise != "" {
				assert.Contains(t, promises, f.Promise, "no case that fails checks it")
			}
		})
	}
	for _, promise := range []string{"G1", "G2", "G3", "G4", "G5", "G6", "G7"} {
		require.True(t, slices.ContainsFunc(reference.Flaws, func(f reference.Description) bool {
			return f.Promise == promise
		}), "no flaw breaks %s", promise)
	}
}

const (
	mistakesPage = "../docs/mistakes.md"
	tableBegins  = "<!-- go test ./conformance -run TestMistakesPage -update -->\n"
)

var update = flag.Bool("update", false, "write the table of docs/mistakes.md")

// docs/mistakes.md lists each flaw with the cases that catch it.
func TestMistakesPage(t *testing.T) {
	page, err := os.ReadFile(mistakesPage)
	require.NoError(t, err)
	text, table, ok := strings.Cut(string(page), tableBegins)
	require.True(t, ok)
	var want strings.Builder
	want.WriteString("| promise | a store that ... | fails |\n|---|---|---|\n")
	for _, f := range reference.Flaws {
		fails := "`" + strings.Join(caught[f.Flaw], "`, `") + "`"
		fmt.Fprintf(&want, "| %s | %s | %s |\n", f.Promise, f.Does, fails)
	}
	if *update {
		require.NoError(t, os.WriteFile(mistakesPage, []byte(text+tableBegins+want.String()), 0o644))
		return
	}
	require.Equal(t, want.String(), table, "go test ./conformance -run TestMistakesPage -update writes it")
}

package conformance_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/broken"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onBroken is the harness of a store with a flaw.
func onBroken(service *broken.Service) conformance.Harness {
	const ttl = 10 * time.Second
	opener := func(grace time.Duration) func(context.Context, conformance.DialFunc) (store.Store, error) {
		return func(context.Context, conformance.DialFunc) (store.Store, error) {
			return broken.Open(service, ttl, grace)
		}
	}
	return conformance.Harness{
		Open:      opener(ttl / 3),
		OpenLeast: opener(ttl / 12),
		Faults:    func(st store.Store) conformance.Faults { return st.(*broken.Store).Faults() },
		Clear:     func(_ context.Context, election string) error { service.Clear(election); return nil },
		TTL:       ttl,
		Expiry:    ttl,
		Watchdog:  12 * ttl, // no case of a store without a flaw takes nine
	}
}

// checkBroken runs a case against the store with a flaw, in virtual time.
func checkBroken(t *testing.T, c conformance.Case, flaw broken.Flaw) *recorder {
	r := &recorder{}
	synctest.Test(t, func(*testing.T) {
		service := broken.NewService(flaw)
		c.Check(r, onBroken(service))
		service.End()
	})
	return r
}

var (
	every  = flag.Bool("every", false, "try every flaw with every case, not only with those that it fails")
	update = flag.Bool("update", false, "with -every: write the table of docs/mistakes.md")
)

// TestBrokenStores shows that the suite finds mistakes. A store without a flaw passes it. With one it fails the cases
// that docs/mistakes.md lists, and at least one of them is of the promise that the flaw breaks. It might fail others by
// chance: they run with -every, are logged, and take minutes with the race detector. With -update, a case is listed that
// fails in each of 20 runs.
func TestBrokenStores(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		for _, c := range conformance.Cases() {
			r := checkBroken(t, c, broken.Flaw{})
			assert.False(t, r.failed, "%s: %s", c.Name, r.log)
		}
	})
	listed := caught(t)
	var rows []string
	for _, f := range broken.Flaws {
		t.Run(f.Does, func(t *testing.T) {
			if !*update {
				require.NotEmpty(t, listed[f.Does], "%s does not list it: go test ./conformance -run TestBrokenStores -every -update", mistakesPage)
			}
			var failed, promises []string
			for _, c := range conformance.Cases() {
				isListed := slices.Contains(listed[f.Does], c.Name)
				if !*every && !isListed {
					continue
				}
				r := checkBroken(t, c, f)
				for runs := 1; *update && r.failed && runs < 20; runs++ { // some need luck to fail
					r = checkBroken(t, c, f)
				}
				switch {
				case r.failed && (isListed || *update):
					failed = append(failed, c.Name)
					promises = append(promises, c.Promises...)
				case r.failed:
					t.Logf("%s: %s", c.Name, r.log)
				}
			}
			assert.NotEmpty(t, failed, "no case fails")
			if f.Promise != "" {
				assert.Contains(t, promises, f.Promise, "no case that fails checks it")
			}
			if !*update {
				assert.ElementsMatch(t, listed[f.Does], failed)
			}
			rows = append(rows, fmt.Sprintf("| %s | %s | `%s` |\n", f.Promise, f.Does, strings.Join(failed, "`, `")))
		})
	}
	for _, promise := range []string{"G1", "G2", "G3", "G4", "G5", "G6", "G7"} {
		require.True(t, slices.ContainsFunc(broken.Flaws, func(f broken.Flaw) bool { return f.Promise == promise }), "no flaw breaks %s", promise)
	}
	if *every && *update {
		text, _ := readMistakes(t)
		slices.SortStableFunc(rows, func(a, b string) int { return strings.Compare(promiseOf(a), promiseOf(b)) })
		require.NoError(t, os.WriteFile(mistakesPage, []byte(text+tableBegins+strings.Join(rows, "")), 0o644))
	}
}

const (
	mistakesPage = "../docs/mistakes.md"
	tableBegins  = "| promise | a store that ... | fails |\n|---|---|---|\n"
)

// promiseOf returns the promise of a row, or what comes after all if it has none.
func promiseOf(row string) string { return strings.Replace(row[:len("| G1")], "|  |", "| Z", 1) }

// readMistakes returns docs/mistakes.md before its table, and the rows of that.
func readMistakes(t *testing.T) (text string, rows []string) {
	page, err := os.ReadFile(mistakesPage)
	require.NoError(t, err)
	text, table, ok := strings.Cut(string(page), tableBegins)
	require.True(t, ok)
	return text, strings.Split(strings.TrimSpace(table), "\n")
}

// caught returns the cases that docs/mistakes.md lists, by what the store does.
func caught(t *testing.T) map[string][]string {
	listed := map[string][]string{}
	_, rows := readMistakes(t)
	for _, row := range rows {
		cells := strings.Split(row, "|")
		require.Len(t, cells, 5, row)
		listed[strings.TrimSpace(cells[2])] = strings.Split(strings.Trim(cells[3], " `"), "`, `")
	}
	return listed
}

// docs/mistakes.md lists the mistakes of package broken, and cases of the suite alone.
func TestMistakesPage(t *testing.T) {
	listed := caught(t)
	for _, f := range broken.Flaws {
		require.NotEmpty(t, listed[f.Does], f.Does)
		for _, name := range listed[f.Does] {
			require.True(t, slices.ContainsFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Name == name }), name)
		}
	}
	require.Len(t, listed, len(broken.Flaws))
}

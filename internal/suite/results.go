package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/conformance"
)

// Outcome says how a case ended.
type Outcome string

// The outcomes of a case.
const (
	Passed Outcome = "passed"
	Failed Outcome = "FAILED"
	NotRun Outcome = "not run"
)

// Result is a case, and how it ended.
type Result struct {
	conformance.Case
	Outcome Outcome
	Took    time.Duration
	Log     string // what the case said; empty if it was not kept
}

// promises are what the cases check, in the words of package leadership.
var promises = []struct{ name, title string }{
	{"G1", "one leader"}, {"G2", "fencing"}, {"G3", "liveness"}, {"G4", "order"}, {"G5", "acknowledgement"},
	{"G6", "no herd"}, {"G7", "nothing outlives its owner"}, {"", "the contract of package store alone"},
}

// ByCase returns a table with a row for each case, below a head.
func ByCase(results []Result) [][]string {
	rows := [][]string{{"case", "promises", "result", "time"}}
	for _, r := range results {
		rows = append(rows, []string{r.Name, strings.Join(r.Promises, " "), string(r.Outcome), fmt.Sprintf("%.1fs", r.Took.Seconds())})
	}
	return rows
}

// ByPromise returns a table that counts the cases of each promise, below a head.
func ByPromise(results []Result) [][]string {
	rows := [][]string{{"promise", "", "passed", "failed", "not run"}}
	for _, p := range promises {
		count := map[Outcome]int{}
		for _, r := range results {
			if slices.Contains(r.Promises, p.name) || p.name == "" && len(r.Promises) == 0 {
				count[r.Outcome]++
			}
		}
		rows = append(rows, []string{p.name, p.title, strconv.Itoa(count[Passed]), strconv.Itoa(count[Failed]), strconv.Itoa(count[NotRun])})
	}
	return rows
}

// Count returns how many cases ended in a way.
func Count(results []Result, outcome Outcome) int {
	n := 0
	for _, r := range results {
		if r.Outcome == outcome {
			n++
		}
	}
	return n
}

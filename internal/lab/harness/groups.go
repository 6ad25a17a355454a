package harness

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/conformance"
)

// counting are the cases that count what this process has or sends: no other case may run beside them in the process.
// Those that count goroutines would count those of other stores. A crowd of a hundred, whose requests are counted, would
// slow down all others.
var counting = []string{"a-change-wakes-one", "stop-leaves-nothing", "close-leaves-nothing", "many-starts-and-stops", outage}

// outage is the case that takes four TTLs, and gains nothing by a long one.
const outage = "an-outage-is-quiet"

// Run runs the suite: RunTogether, and then RunCounting.
func Run(t *testing.T, h conformance.Harness) {
	RunTogether(t, h, 8)
	RunCounting(t, h, h)
}

// RunOfSessions runs the cases whose outcome depends on how long the service keeps a session, and on what renews it: a store
// that has two kinds of sessions passes the others with one of them.
func RunOfSessions(t *testing.T, h conformance.Harness, atATime int) {
	named(t, ofSessions...).run(t, h, atATime)
}

var ofSessions = []string{
	"no-term-without-a-renewal", "long-round-trips", "renewal-keeps-others-out", "slow-head-gives-way",
	"lease-counts-from-the-request", "lease-leaves-a-grace", "first-answer-after-a-pause", "cut-off-leader-stops-first",
	"late-confirmation-revives-nothing", "hanging-call-holds-nothing-up", "waiter-with-a-lost-session-never-wins",
	"crash-is-taken-over", "tokens-grow-over-crashes", "outage-longer-than-the-session", "alone-after-a-partition",
	"death-before-acknowledging", "acknowledgement-goes-with-the-ballot", "followers-see-every-leader",
	"close-under-a-candidate", "close-against-a-cast", "close-ends-the-session", "as-of-is-recent-after-an-outage",
}

// RunTogether runs the cases that can run beside others: several at a time, since they mostly wait. Those that take long
// come first.
func RunTogether(t *testing.T, h conformance.Harness, atATime int) {
	var cases group
	for _, c := range conformance.Cases() {
		if !slices.Contains(counting, c.Name) {
			cases = append(cases, c)
		}
	}
	long := []string{"as-of-is-not-ahead-of-the-news", "as-of-is-recent-after-an-outage", "long-round-trips"}
	slices.SortStableFunc(cases, func(a, b conformance.Case) int {
		return slices.Index(long, b.Name) - slices.Index(long, a.Name)
	})
	cases.run(t, h, atATime)
}

// RunCounting runs the cases that count, one by one, with a harness of its own for the outage. No other test may run
// beside it.
func RunCounting(t *testing.T, h, ofOutage conformance.Harness) {
	for _, c := range named(t, counting...) {
		h := h
		if c.Name == outage {
			h = ofOutage
		}
		group{c}.run(t, h, 1)
	}
}

// group is some cases that run at the same time.
type group []conformance.Case

// named returns the cases with these names.
func named(t *testing.T, names ...string) (g group) {
	t.Helper()
	all := conformance.Cases()
	for _, name := range names {
		i := slices.IndexFunc(all, func(c conformance.Case) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("the suite has no case %q", name)
		}
		g = append(g, all[i])
	}
	return g
}

// name is the name of a subtest.
func (g group) name() string {
	var names []string
	for _, c := range g {
		names = append(names, c.Name)
	}
	return strings.Join(names, "+")
}

// run runs the cases as subtests, some at a time, and returns when all have ended.
func (g group) run(t *testing.T, h conformance.Harness, atATime int) {
	var cases sync.WaitGroup
	defer cases.Wait()
	room := make(chan struct{}, atATime)
	for _, c := range g {
		room <- struct{}{}
		cases.Go(func() {
			defer func() { <-room }()
			t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
		})
	}
}

package conformance

import (
	"time"

	"github.com/go-leadership/leadership"
)

// quiet checks what a store does while its service can't be reached.
var quiet = []Case{
	{
		Name:     "an-outage-is-quiet",
		Promises: []string{"G7"},
		Explains: "in an outage a store sends at most 10 requests a second, and has hardly more goroutines than when idle",
		check: func(e *env) {
			m := e.open()
			all := []*leadership.Candidate{e.stand(m, "a", nil), e.stand(m, "b", nil)}
			receive(e, e.changes(e.follower(m)), "the first state")
			e.until("one leads", func() bool { return leading(all) > 0 })
			_, idle := e.countGoroutines(e.h.TTL / 4)

			m.Cut()
			e.pass(e.h.TTL) // the session is over
			e.staysQuiet(m, "unanswered", idle)
			if r, ok := m.Faults.(interface{ Refuse() }); ok {
				r.Refuse()
				e.pass(e.h.TTL / 2) // all that waited fail at once, and back off
				e.staysQuiet(m, "refused", idle)
			}
			m.Heal()
			e.until("one leads again", func() bool { return leading(all) > 0 })
			e.until("the goroutines of the outage have ended", func() bool { return goroutines() <= idle+moreGoroutines })
		},
	},
}

// moreGoroutines is how many more a store might have in an outage: 12, and 4 for each of the three that wait, since a
// connection has some.
const moreGoroutines = 12 + 3*4

// staysQuiet counts for a TTL what a member that is cut off sends, and its goroutines. Those that live for a moment do
// not count: the fewest goroutines of all moments are compared.
func (e *env) staysQuiet(m *member, requests string, idle int) {
	e.TB.Helper()
	began, before := time.Now(), m.Requests()
	fewest, _ := e.countGoroutines(e.h.TTL)
	sent := m.Requests() - before
	took := time.Since(began)
	e.Logf("%d requests in %v, %d goroutines, %d when idle (requests are %s)", sent, took, fewest, idle, requests)
	e.check(float64(sent) <= 10+10*took.Seconds(), "%d requests in %v while they are %s", sent, took, requests)
	e.check(fewest <= idle+moreGoroutines, "%d goroutines while requests are %s, %d when idle", fewest, requests, idle)
}

// countGoroutines returns the fewest and the most goroutines that there are at a moment of the given time.
func (e *env) countGoroutines(d time.Duration) (fewest, most int) {
	e.TB.Helper()
	fewest = goroutines()
	most = fewest
	e.during(d, "goroutines are counted", func() bool {
		n := goroutines()
		fewest, most = min(fewest, n), max(most, n)
		return true
	})
	return fewest, most
}

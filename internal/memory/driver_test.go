package memory

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/stretchr/testify/require"
)

const driverTTL = 10 * time.Second

// harness opens drivers of one kind, changed by wrap.
func harness(watches Watches, peers bool, wrap func(engine.Driver) engine.Driver) drivertest.Harness {
	service := NewService()
	open := func(_ context.Context, delay time.Duration) (engine.Driver, error) {
		d := newDriver(service, Config{TTL: driverTTL, Grace: driverTTL / 3, Watches: watches, Peers: peers})
		d.faults.Delay(driverTTL / 2000) // so that a request can be on its way
		d.faults.DelayReplies(delay)
		if peers {
			return wrap(peersDriver{d}), nil
		}
		return wrap(d), nil
	}
	return drivertest.Harness{
		TTL: driverTTL, OpenSlow: open,
		Open:  func(ctx context.Context) (engine.Driver, error) { return open(ctx, 0) },
		Break: func(d engine.Driver) { driverOf(d).faults.Break() },
	}
}

func TestDriver(t *testing.T) {
	for _, watches := range []Watches{Ordered, OneShot, Unordered} {
		for _, peers := range []bool{false, true} {
			for _, c := range drivertest.Cases() {
				t.Run(fmt.Sprint(watches, peers, " ", c.Name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c.Check(t, harness(watches, peers, func(d engine.Driver) engine.Driver { return d }))
					})
				})
			}
		}
	}
}

func caseOf(t *testing.T, name string) drivertest.Case {
	t.Helper()
	for _, c := range drivertest.Cases() {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "there is no case "+name)
	return drivertest.Case{}
}

// recorder notes failures.
type recorder struct {
	mu     sync.Mutex
	failed []string // guarded by mu
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Skipf(string, ...any) {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

// TestFlawedDrivers shows that each case can fail.
func TestFlawedDrivers(t *testing.T) {
	caught := map[string]bool{}
	for flaw, by := range map[string]string{
		"goes back":                                      "news-never-goes-back",
		"does not tell all changes":                      "every-change-is-told",
		"confirms before it tells":                       "as-of-is-behind-the-news",
		"tells an old time, and never the present":       "the-present-is-told",
		"counts from the answer":                         "as-of-counts-from-the-request",
		"shares a read that is under way":                "reads-are-not-shared",
		"tells two things at once":                       "one-tell-at-a-time",
		"holds a lock during a request":                  "requests-hold-no-call-up",
		"has no order":                                   "streams-are-in-order",
		"reads what it has read before":                  "reads-follow-their-call",
		"says that all are first":                        "first-has-none-ahead",
		"says that a session which has led is first":     "first-has-none-ahead",
		"says of what has gone that it is first":         "first-has-none-ahead",
		"has falling tokens":                             "tokens-grow",
		"shows an entry after others with higher tokens": "entered-at-the-same-moment",
		"looks ahead before it enters":                   "entered-at-the-same-moment",
		"enters twice":                                   "enter-is-idempotent",
		"enters what is void":                            "void-is-final",
		"acknowledges what has gone":                     "acknowledge-needs-the-entry",
		"removes others":                                 "remove-touches-no-others",
		"proves for a TTL":                               "proofs-count-from-the-request",
		"proves the session from the answer":             "proofs-come-after-their-answer",
		"proves a renewal from the answer":               "proofs-come-after-their-answer",
		"ends sessions early":                            "session-lasts",
		"ends a session when its renewals do":            "session-stands-for-its-ttl",
		"does not end sessions":                          "end-takes-all-entries",
		"does not tell of marks":                         "mark-is-told",
		"ends the session before":                        "next-session",
		"says what was first":                            "first-is-the-head",
		"says what is last":                              "first-is-the-head",
		"says no nonce of the first":                     "first-is-the-head",
		"clears nothing":                                 "clear-takes-one-election",
		"clears what is below":                           "clear-takes-one-election",
		"lists no elections":                             "elections-are-listed",
		"forgets the watches of a broken connection":     "broken-connection-is-told",
		"does not count its connections":                 "connections-are-counted",
		"expires what was renewed":                       "marks-of-sessions",
		"expires nothing":                                "marks-of-sessions",
		"proves the age of any mark":                     "marks-of-sessions",
		"proves what is shorter":                         "marks-of-sessions",
		"proves nothing":                                 "marks-of-sessions",
	} {
		caught[by] = true
		t.Run(flaw, func(t *testing.T) {
			r := &recorder{}
			synctest.Test(t, func(*testing.T) {
				caseOf(t, by).Check(r, harness(Ordered, by == "marks-of-sessions", spoil(flaw)))
			})
			require.NotEmpty(t, r.failed)
			t.Log(r.failed)
		})
	}
	for _, c := range drivertest.Cases() {
		require.True(t, caught[c.Name], "no driver is known to fail %s", c.Name)
	}
}

// Package conformance is the suite that every store has to pass. Adopting it takes one line:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			Open: open, OpenLeast: openLeast, Clear: clear, TTL: 2 * time.Second, Expiry: 4 * time.Second,
//		})
//	}
//
// Each case is a subtest with a name, the promises it checks (G1 to G7 of package leadership), a sentence that
// explains them, and a watchdog. None can be left out. docs/writing-a-store.md is the guide for writers of stores.
package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Harness makes the stores that the suite tests. Open, OpenLeast, Clear, TTL and Expiry are required.
type Harness struct {
	// Open opens a store with a session of its own on the service under test, as another process would. A store
	// that speaks over a network has to open all its connections with dial; one that does not ignores it.
	Open func(ctx context.Context, dial DialFunc) (store.Store, error)
	// OpenLeast is Open with the least grace that the store takes, or a twelfth of the TTL if it takes less. A store
	// whose grace can't be set gives Open here too.
	OpenLeast func(ctx context.Context, dial DialFunc) (store.Store, error)
	// Faults returns the switches of a store that does not use dial. Nil if the store uses dial.
	Faults func(st store.Store) Faults
	// Clear removes everything that the service keeps of an election, as an operator would.
	Clear func(ctx context.Context, election string) error
	// Restore keeps a copy of what the service has of an election, and returns a function that puts it back, as an operator
	// does with a snapshot, while the sessions of the stores go on. Nil if the harness can't: leads-after-a-restore is
	// not checked then, and its log says so.
	Restore func(ctx context.Context, election string) (restore func() error, err error)
	// TTL is the session TTL of the stores that Open opens. The shorter, the faster the suite.
	TTL time.Duration
	// Expiry is the documented bound on the time from a holder's crash to its successor's leading.
	Expiry time.Duration
	// WithoutResignation says that the store takes no requests to resign: RequestResignation returns
	// errors.ErrUnsupported. The cases of requests to resign end there, and log that the rest is NOT CHECKED.
	WithoutResignation bool
	// Lingering is how long after its last use a store documents that it keeps a goroutine for an election. Default: 0.
	Lingering time.Duration
	// Watchdog ends a case that takes longer. Default: one minute and 20 times Expiry.
	Watchdog time.Duration
}

// TB is what a case needs of a test. Every testing.TB has it, and so might the report of a program that runs the suite:
//
//	for _, c := range conformance.Cases() {
//		c.Check(report, harness)
//	}
//
// Its methods are called from several goroutines.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any) // the case has failed, and might go on
	Fail()                             // as Errorf, without a text
	Failed() bool                      // whether Errorf or Fail has been called
}

// Run runs the suite as subtests of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
	}
}

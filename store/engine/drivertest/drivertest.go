// Package drivertest checks what package engine relies on: the invariants of engine.Driver, one case for each. A driver
// runs it in its own tests:
//
//	func TestDriver(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{Open: open, TTL: 2 * time.Second})
//	}
//
// It is about the driver alone. That elections work is what package conformance checks, on the whole store. A driver
// without a network may run in the virtual time of testing/synctest, with [Case.Check].
//
// No case is about Close: the engine has ended the sessions and taken the watches back before. Package conformance checks
// what is left of a closed store. No case is about store.ErrDenied: that takes a user with fewer permissions, whom each
// service makes in its own way, so a driver's own tests show it.
package drivertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store/engine"
)

// Harness makes the drivers under test. Open and TTL are required.
type Harness struct {
	// Open returns a driver with a connection of its own to the service, as in another process. The case closes it. It is
	// called from several goroutines.
	Open func(ctx context.Context) (engine.Driver, error)
	// TTL is that of the sessions. The shorter, the faster the cases.
	TTL time.Duration
	// OpenSlow is Open with a line on which each answer takes the delay longer. nil: no case finds a Proof.Sent or an AsOf
	// that is the time of the answer, a read that is shared with one under way, or a lock that is held during a request.
	OpenSlow func(ctx context.Context, delay time.Duration) (engine.Driver, error)
	// Break breaks the connections of a driver that Open has returned, in both directions. The service goes on, and the
	// driver connects again. nil: no case finds a driver that misses what happened meanwhile.
	Break func(d engine.Driver)
}

// TB is the part of testing.TB that a case needs. Its methods are called from several goroutines.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Skipf(format string, args ...any) // called by Check alone, in the goroutine that has called it
}

// Case checks one invariant.
type Case struct {
	Name      string
	Invariant string // what the engine relies on; a driver that fails the case breaks it
	check     func(e *env)
}

// Cases returns all cases. Those that wait longest come first.
func Cases() []Case {
	return slices.Concat(sessions, watches, reads, first, connections, together, requests, optional)
}

// atOnce is how many cases Run runs at the same time: each has some four connections, and waits most of the time.
const atOnce = 8

// Run runs all cases as subtests, some at the same time whatever -parallel says: it takes some four TTL if the service
// answers soon. Each case has an election and drivers of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	free := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, c := range Cases() {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
		})
	}
	running.Wait()
}

// Check runs the case. It takes a few TTL, and no longer than 30 of them and two minutes. If it fails after a session could
// not be renewed for a TTL, its output says so: then the machine or the service is too slow for the TTL.
// A case that does not apply, or has found nothing to check, is skipped with the reason.
func (c Case) Check(t TB, h Harness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*h.TTL+2*time.Minute)
	defer cancel()
	e := &env{TB: t, h: h, ctx: ctx, meter: stall.Start()}
	defer e.meter.Stop()
	e.election = fmt.Sprint("drivertest/", c.Name, "/", time.Now().UnixNano())
	done := make(chan struct{})
	go func() { // check ends it
		defer close(done)
		defer e.cleanUp()
		c.check(e)
	}()
	<-done
	switch {
	case e.failed:
		t.Errorf("%s: %s", c.Name, c.Invariant)
	case e.skipped != "":
		t.Skipf("NOT TESTED: %s", e.skipped)
	}
}

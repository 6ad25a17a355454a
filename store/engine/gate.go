package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// places is how many reads are under way at once. A request without an answer keeps its place. So reads of a service that
// does not answer don't pile up.
const places = 16

// gate lets the requests of a store through. A read waits for one of the [places], in the order of asking; reads of ballots
// that might be first come before all others. In an outage one request after another is let through, as a probe of the
// service (outage.go).
type gate struct {
	outage // guarded by mu

	mu      sync.Mutex
	taken   int            // places
	waiting []*pass        // in the order in which they are let through; in an outage, see choose
	reports []*func(error) // of the calls that want to hear of each failure: see package trouble
	paused  bool           // in an outage: after a probe, until the timer fires
	timer   *time.Timer    // for the next probe; nil before the first
}

// pass is a request that waits.
type pass struct {
	kind kind
	come chan struct{} // closed when the request may be sent
}

// kind is what a request needs to pass the gate.
type kind int

const (
	plain kind = iota // a request of a caller, or a removal: no place
	opens             // a request that opens a session: no place, and every other probe
	reads             // a place
	leads             // a place, before all reads: the ballot might be first
)

func (k kind) needsPlace() bool { return k == reads || k == leads }

// send sends a request when the gate lets it through. Its result begins or ends an outage. If ctx ends first, send sends
// nothing.
func (g *gate) send(ctx context.Context, k kind, request func() error) error {
	if err := g.enter(ctx, k); err != nil {
		return err
	}
	sent := time.Now()
	err := request()
	g.done(k)
	switch {
	case isAnswer(err):
		g.answer()
	case adapter.Uncertain(err) && ctx.Err() == nil: // other errors prove nothing: a driver might know without a request
		g.fail(sent, err)
	}
	return err
}

// enter waits until the request may be sent. Its error matches ErrUnavailable.
func (g *gate) enter(ctx context.Context, k kind) error {
	g.mu.Lock()
	if !g.isOut() && g.hasPlace(k) {
		g.take(k)
		g.mu.Unlock()
		return nil
	}
	p := &pass{k, make(chan struct{})}
	g.insert(p)
	g.grant()
	g.mu.Unlock()
	select {
	case <-p.come:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, p); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return g.why()
	}
	g.give(k) // it was let through in the same moment
	return g.why()
}

// insert makes a request wait. The caller holds mu, as for all below.
func (g *gate) insert(p *pass) {
	at := len(g.waiting)
	if p.kind == leads {
		if i := slices.IndexFunc(g.waiting, func(other *pass) bool { return other.kind == reads }); i >= 0 {
			at = i
		}
	}
	g.waiting = slices.Insert(g.waiting, at, p)
}

func (g *gate) hasPlace(k kind) bool { return !k.needsPlace() || g.taken < places }

func (g *gate) take(k kind) {
	if k.needsPlace() {
		g.taken++
	}
}

// give gives back what take has taken.
func (g *gate) give(k kind) {
	if k.needsPlace() {
		g.taken--
		g.grant()
	}
}

// done is give for a caller that does not hold mu.
func (g *gate) done(k kind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.give(k)
}

// grant lets through what may be sent now.
func (g *gate) grant() {
	if g.isOut() {
		g.probe()
		return
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(p *pass) bool {
		ok := g.hasPlace(p.kind)
		if ok {
			g.take(p.kind)
			close(p.come)
		}
		return ok
	})
}

// probe lets one request through, unless it is too soon, and sets the timer for the next probe.
func (g *gate) probe() {
	i := g.choose()
	if g.paused || i < 0 {
		return
	}
	p := g.waiting[i]
	g.waiting = slices.Delete(g.waiting, i, i+1)
	g.take(p.kind)
	close(p.come)
	g.paused, g.opened, g.pause = true, p.kind == opens, min(max(leastPause, 2*g.pause), mostPause)
	g.timer = time.AfterFunc(g.pause, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.paused = false
		g.grant()
	})
}

// choose returns which request is the next probe, or -1. Every other probe is a request that opens a session, if one
// waits: the others might belong to sessions that are over.
func (g *gate) choose() int {
	i := slices.IndexFunc(g.waiting, func(p *pass) bool { return (p.kind == opens) != g.opened && g.hasPlace(p.kind) })
	if i < 0 {
		i = slices.IndexFunc(g.waiting, func(p *pass) bool { return g.hasPlace(p.kind) })
	}
	return i
}

// answer ends an outage: the service has answered.
func (g *gate) answer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end() {
		g.stopTimers()
		g.paused = false
		g.grant()
	}
}

// fail begins an outage, if there is none: a request was not answered.
func (g *gate) fail(sent time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.report(g.reports...)
	if g.begin(sent, err) {
		g.warn = time.AfterFunc(unnoticed, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.lasts(sent)
		})
	}
}

// report says why requests wait, if they do.
func (g *gate) report(to ...*func(error)) {
	for _, report := range to {
		if g.isOut() {
			(*report)(g.why())
		}
	}
}

// reportTo reports an outage, and each failure, until stop is called.
func (g *gate) reportTo(report func(error)) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := &report
	g.reports = append(g.reports, entry)
	g.report(entry)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.reports = slices.DeleteFunc(g.reports, func(other *func(error)) bool { return other == entry })
	}
}

// err returns why requests wait, or nil if there is no outage.
func (g *gate) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOut() {
		return nil
	}
	return g.why()
}

// why returns why a request was not sent.
func (g *gate) why() error {
	if !g.isOut() {
		return fmt.Errorf("%w: the request was not sent yet", store.ErrUnavailable)
	}
	return fmt.Errorf("%w: %s", store.ErrUnavailable, g.cause)
}

func (g *gate) stopTimers() {
	for _, t := range []*time.Timer{g.warn, g.timer} {
		if t != nil {
			t.Stop()
		}
	}
}

// close stops the timers. Nothing is sent any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopTimers()
}

package drivertest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store/engine"
)

// reads checks requests that take long, and what is told meanwhile.
var reads = []Case{
	{
		Name:      "as-of-counts-from-the-request",
		Invariant: "AsOf is not later than the request was sent whose answer is told, however long the answer takes",
		check: func(e *env) {
			d, delay := e.slow()
			a := e.process()
			entry := e.enter(a)
			e.leader(d) // connects
			for range 3 {
				n := &news{}
				watching := e.slowly(delay, func(ctx context.Context) {
					if w, err := d.WatchLeader(ctx, e.election, n.tell); err == nil {
						e.onClose(w.Stop)
					}
				})
				revision := e.acknowledge(a, entry, "while a read is under way")
				e.rightAsOf(n, revision, watching)
				confirming := e.slowly(delay, func(ctx context.Context) { _ = d.Confirm(ctx) })
				revision = e.acknowledge(a, entry, "while a confirmation is under way")
				e.rightAsOf(n, revision, confirming)
			}
		},
	},
	{
		Name:      "reads-are-not-shared",
		Invariant: "WatchEntry, WatchLeader and Ahead send a request of their own, though another call has sent the same one already",
		check: func(e *env) {
			d, delay := e.slow()
			a, b := e.process(), e.processOn(d)
			first, second, third := e.enter(a), e.enter(b), e.enter(b)
			leader := e.slowly(delay, func(ctx context.Context) {
				if w, err := d.WatchLeader(ctx, e.election, func(engine.News) {}); err == nil {
					e.onClose(w.Stop)
				}
			})
			revision := e.acknowledge(a, first, "while a read is under way")
			s, told := e.leader(d).state()
			<-leader
			e.check(told && s.Leader.Revision >= revision, "revision %d was read after %d", s.Leader.Revision, revision)
			e.remove(b, second)
			ahead := e.slowly(delay, func(ctx context.Context) { _, _ = d.Ahead(ctx, third) })
			entry := e.slowly(0, func(ctx context.Context) {
				if w, err := d.WatchEntry(ctx, first.Key, func(engine.News) {}); err == nil {
					e.onClose(w.Stop)
				}
			})
			e.remove(a, first)
			var place engine.Place
			again := e.slowly(0, func(ctx context.Context) { place, _ = d.Ahead(ctx, third) })
			n, _ := e.entry(d, first.Key)
			s, told = n.state()
			<-again
			<-entry
			<-ahead
			e.check(told && s.Token == 0, "an entry that has gone was read as %+v", s)
			e.check(place.Nearest != first.Key, "an entry that has gone is ahead")
		},
	},
	{
		Name:      "one-tell-at-a-time",
		Invariant: "a watch is told one thing after the other: Tell is called by one goroutine at a time for each watch",
		check: func(e *env) {
			a, d := e.process(), e.driver()
			entry := e.enter(a)
			var twice atomic.Bool
			tell := func() engine.Tell {
				var under atomic.Int64
				return func(engine.News) {
					if under.Add(1) > 1 {
						twice.Store(true)
					}
					for range 50 {
						runtime.Gosched() // so that another call would meet this one
					}
					under.Add(-1)
				}
			}
			_, w := e.watch("watch the leader", func(engine.Tell) (engine.Watch, error) { return d.WatchLeader(e.ctx, e.election, tell()) })
			e.onClose(w.Stop)
			_, w = e.watch("watch an entry", func(engine.Tell) (engine.Watch, error) { return d.WatchEntry(e.ctx, entry.Key, tell()) })
			e.onClose(w.Stop)
			var confirms sync.WaitGroup
			for i := range changes {
				for range 3 {
					confirms.Go(func() {
						ctx, cancel := context.WithTimeout(e.ctx, e.h.TTL/4)
						defer cancel()
						_ = d.Confirm(ctx)
					})
				}
				e.acknowledge(a, entry, "value")
				if i == changes-1 {
					e.remove(a, entry)
				}
			}
			confirms.Wait()
			e.check(!twice.Load(), "a watch was told two things at once")
		},
	},
	{
		Name:      "requests-hold-no-call-up",
		Invariant: "while a request is under way, other calls return whose contexts have ended, and so does Stop of a watch",
		check: func(e *env) {
			d, delay := e.slow()
			b := e.processOn(d)
			entry := e.enter(b)
			over, cancel := context.WithCancel(e.ctx)
			cancel()
			ignore := func(engine.News) {}
			requests := map[string]func(ctx context.Context){
				"Ahead":   func(ctx context.Context) { _, _ = d.Ahead(ctx, entry) },
				"Ballots": func(ctx context.Context) { _, _ = d.Ballots(ctx, e.election) },
				"Leader": func(ctx context.Context) {
					if w, err := d.WatchLeader(ctx, e.election, ignore); err == nil {
						e.onClose(w.Stop)
					}
				},
				"Entry": func(ctx context.Context) {
					if w, err := d.WatchEntry(ctx, entry.Key, ignore); err == nil {
						e.onClose(w.Stop)
					}
				},
			}
			meter := stall.Start()
			defer meter.Stop()
			for name, request := range requests {
				held, attempts := true, 0
				for held && attempts < 20 { // on a busy machine the answer can come first
					before := meter.Stalled()
					_, w := e.entry(d, entry.Key)
					under := e.slowly(delay/10, request)
					w.Stop()
					for _, other := range requests {
						other(over)
					}
					select {
					case <-under:
					default:
						held = false
					}
					<-under
					if meter.Stalled() == before || e.ctx.Err() != nil {
						attempts++
					}
				}
				e.check(!held, "other calls returned after %s did, in %d attempts; %v", name, attempts, meter)
			}
		},
	},
}

// slow opens a driver whose answers take the delay longer. If the harness has none, the case is skipped.
func (e *env) slow() (d engine.Driver, delay time.Duration) {
	e.Helper()
	if e.h.OpenSlow == nil {
		e.skip("the harness has no OpenSlow")
	}
	delay = e.h.TTL / 20
	return e.driverOf(e.h.OpenSlow(e.ctx, delay)), delay
}

// slowly makes a request in the background, and returns after half of its delay: it has reached the service, and its
// answer is under way. done is closed when the request has returned.
func (e *env) slowly(delay time.Duration, request func(ctx context.Context)) (done <-chan struct{}) {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		request(e.ctx)
	}()
	e.onClose(func() { <-returned })
	time.Sleep(delay / 2)
	return returned
}

// rightAsOf checks that a watch is not told to be right as of a time after an acknowledgement before it is told of that.
func (e *env) rightAsOf(n *news, revision uint64, request <-chan struct{}) {
	e.Helper()
	after := time.Now()
	<-request
	time.Sleep(e.h.TTL / 100)
	known := uint64(0)
	for _, one := range n.all() {
		if one.State != nil {
			known = one.State.Leader.Revision
		}
		if one.Over || one.State == nil && one.AsOf.IsZero() {
			return
		}
		late := one.AsOf.After(after)
		e.check(!late || known >= revision, "the leader is right as of a time after an acknowledgement that was not told")
	}
}

// Package drivertest checks what package engine relies on: the invariants of engine.Driver, one case for each. A driver
// runs it in its own tests:
//
//	func TestDriver(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{Open: open, TTL: 2 * time.Second})
//	}
//
// It is about the driver alone. That elections work is what package conformance checks, on the whole store. A driver
// without a network may run in the virtual time of testing/synctest, with [Case.Check].
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
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
}

// Case checks one invariant.
type Case struct {
	Name      string
	Invariant string // what the engine relies on; a driver that fails the case breaks it
	check     func(e *env)
}

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(watches, reads, first, connections, sessions, together, requests, optional)
}

// Run runs all cases as subtests, at once: each has an election and drivers of its own, and waits most of the time.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Check(t, h)
		})
	}
}

// Check runs the case. It takes a few TTL, and no longer than 30 of them and half a minute.
func (c Case) Check(t TB, h Harness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*h.TTL+30*time.Second)
	defer cancel()
	e := &env{TB: t, h: h, ctx: ctx}
	e.election = fmt.Sprint("drivertest/", c.Name, "/", time.Now().UnixNano())
	done := make(chan struct{})
	go func() { // failed ends it
		defer close(done)
		defer e.cleanUp()
		c.check(e)
	}()
	<-done
	if e.failed {
		t.Errorf("%s: %s", c.Name, c.Invariant)
	}
}

// env is what a case works with.
type env struct {
	TB
	h        Harness
	ctx      context.Context
	election string
	turns    uint64
	failed   bool // only the case's goroutine uses it

	mu      sync.Mutex
	closers []func() // guarded by mu
}

func (e *env) cleanUp() {
	for {
		e.mu.Lock()
		last := len(e.closers) - 1
		if last < 0 {
			e.mu.Unlock()
			return
		}
		f := e.closers[last]
		e.closers = e.closers[:last]
		e.mu.Unlock()
		f()
	}
}

// onClose calls a function at the end of the case, the last first.
func (e *env) onClose(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closers = append(e.closers, f)
}

// check ends the case if something does not hold.
func (e *env) check(ok bool, format string, args ...any) {
	e.Helper()
	if !ok {
		e.failed = true
		e.Errorf(format, args...)
		runtime.Goexit()
	}
}

func (e *env) ok(err error, what string) {
	e.Helper()
	e.check(err == nil, "%s: %v", what, err)
}

// until waits for a condition.
func (e *env) until(what string, holds func() bool) {
	e.Helper()
	for ; !holds(); time.Sleep(max(time.Millisecond, e.h.TTL/1000)) {
		e.check(e.ctx.Err() == nil, "waited in vain until %s", what)
	}
}

// process is a driver with a session that is renewed.
type process struct {
	engine.Driver
	engine.Session
	proof engine.Proof

	stopRenewing func() // returns when Keep has

	mu     sync.Mutex
	proofs []proof       // guarded by mu: of renewals
	over   chan struct{} // closed when Keep has returned
}

// proof is one that Keep has told.
type proof struct {
	engine.Proof
	at time.Time // when it was told
}

// driver opens a driver.
func (e *env) driver() engine.Driver {
	e.Helper()
	return e.driverOf(e.h.Open(e.ctx))
}

// driverOf uses a driver that was opened.
func (e *env) driverOf(d engine.Driver, err error) engine.Driver {
	e.Helper()
	e.ok(err, "open a driver")
	e.onClose(func() {
		if err := d.Close(); err != nil {
			e.Errorf("close a driver: %v", err)
		}
	})
	return d
}

// process opens a driver and a session, which is renewed until the end of the case.
func (e *env) process() *process {
	e.Helper()
	return e.processOn(e.driver())
}

// processOn is process on a driver that was opened.
func (e *env) processOn(d engine.Driver) *process {
	e.Helper()
	p := &process{Driver: d, over: make(chan struct{})}
	p.Session, p.proof = e.open(p.Driver)
	ctx, cancel := context.WithCancel(e.ctx)
	go func() {
		defer close(p.over)
		_ = p.Keep(ctx, func(one engine.Proof) {
			told := proof{one, time.Now()}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.proofs = append(p.proofs, told)
		})
	}()
	p.stopRenewing = func() {
		cancel()
		<-p.over
	}
	e.onClose(func() {
		p.stopRenewing()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = p.End(ctx, nil)
	})
	return p
}

// open opens a session.
func (e *env) open(d engine.Driver) (s engine.Session, proof engine.Proof) {
	e.Helper()
	e.finally("open a session", func() (err error) {
		s, proof, err = d.Open(e.ctx)
		return err
	})
	return s, proof
}

// renewedSince reports whether a renewal that was sent after the time has succeeded.
func (p *process) renewedSince(t store.Instant) bool {
	return slices.ContainsFunc(p.renewals(), func(one proof) bool { return one.Sent.Time().After(t.Time()) })
}

// renewals returns what Keep has told so far.
func (p *process) renewals() []proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.proofs)
}

// nonce returns one that has not been used.
func (e *env) nonce() engine.Nonce {
	e.turns++
	return engine.Nonce{Name: fmt.Sprintf("%016x%08x", time.Now().UnixNano(), e.turns), Turn: e.turns}
}

// enter makes an entry.
func (e *env) enter(s engine.Session) engine.Entry {
	e.Helper()
	return e.enterAs(s, e.nonce())
}

// enterAs makes the entry of a nonce.
func (e *env) enterAs(s engine.Session, n engine.Nonce) (entry engine.Entry) {
	e.Helper()
	e.finally("enter", func() (err error) {
		entry, err = s.Enter(e.ctx, e.election, n, "value")
		return err
	})
	entry.Election = e.election
	return entry
}

// briefly makes a request with a context that ends after a share of the time that such a request takes.
func (e *env) briefly(share float64, takes time.Duration, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(e.ctx, time.Duration(share*float64(takes)))
	defer cancel()
	return request(ctx)
}

// finally makes a request until its outcome is known.
func (e *env) finally(what string, request func() error) {
	e.Helper()
	var err error
	e.until("it is known what became of the request to "+what, func() bool {
		err = request()
		return !uncertain(err)
	})
	e.ok(err, what)
}

// uncertain reports whether the engine sends a request again after the error.
func uncertain(err error) bool {
	return errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable)
}

// ballots checks that these tokens are those of the ballots.
func (e *env) ballots(d engine.Driver, tokens ...uint64) {
	e.Helper()
	list := e.list(d)
	found := []uint64{}
	for _, b := range list {
		found = append(found, b.Token)
	}
	e.check(slices.Equal(found, tokens), "the ballots are %v, not those with the tokens %v", list, tokens)
}

// list returns the ballots.
func (e *env) list(d engine.Driver) []store.Standing {
	e.Helper()
	return e.listOf(d, e.election)
}

// listOf is list of an election.
func (e *env) listOf(d engine.Driver, election string) (list []store.Standing) {
	e.Helper()
	e.finally("list the ballots", func() (err error) {
		list, err = d.Ballots(e.ctx, election)
		return err
	})
	return list
}

// ahead asks what is ahead of an entry.
func (e *env) ahead(d engine.Driver, entry engine.Entry) (place engine.Place) {
	e.Helper()
	e.finally("learn what is ahead", func() (err error) {
		place, err = d.Ahead(e.ctx, entry)
		return err
	})
	return place
}

// acknowledge makes a value the leader's.
func (e *env) acknowledge(p engine.Session, entry engine.Entry, value string) uint64 {
	e.Helper()
	var revision uint64
	e.finally("acknowledge", func() (err error) {
		revision, err = p.Acknowledge(e.ctx, entry, value)
		return err
	})
	return revision
}

// remove removes an entry that led.
func (e *env) remove(p *process, entry engine.Entry) {
	e.Helper()
	e.finally("remove", func() error { return p.Remove(e.ctx, removal(entry)) })
}

// removal is that of an entry that led, and is the only one of its session.
func removal(entry engine.Entry) engine.Removal {
	return engine.Removal{Entry: entry, Led: true, Acknowledged: true, Alone: func() bool { return true }}
}

// news is what one watch has told.
type news struct {
	mu   sync.Mutex
	list []engine.News
	log  func(engine.News) // nil, or told of each
}

func (n *news) tell(one engine.News) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, one)
	if n.log != nil {
		n.log(one)
	}
}

func (n *news) all() []engine.News {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]engine.News{}, n.list...)
}

// state returns the last state, if there is one.
func (n *news) state() (s engine.State, told bool) {
	for _, one := range n.all() {
		if one.State != nil {
			s, told = *one.State, true
		}
	}
	return s, told
}

// stale reports whether the watch has said that it has to be set and read anew.
func (n *news) stale() bool {
	for _, one := range n.all() {
		if one.Over || one.State == nil && one.AsOf.IsZero() {
			return true
		}
	}
	return false
}

// entry watches an entry.
func (e *env) entry(d engine.Driver, key string) (*news, engine.Watch) {
	e.Helper()
	n, w := e.watch("watch an entry", func(tell engine.Tell) (engine.Watch, error) { return d.WatchEntry(e.ctx, key, tell) })
	e.onClose(w.Stop)
	return n, w
}

// leader watches the leader.
func (e *env) leader(d engine.Driver) *news {
	e.Helper()
	n, w := e.watch("watch the leader", func(tell engine.Tell) (engine.Watch, error) { return d.WatchLeader(e.ctx, e.election, tell) })
	e.onClose(w.Stop)
	return n
}

// watch begins to watch, again if the service could not be reached.
func (e *env) watch(what string, begin func(engine.Tell) (engine.Watch, error)) (n *news, w engine.Watch) {
	e.Helper()
	e.finally(what, func() (err error) {
		n = &news{} // what a watch tells that could not begin is not taken for what the next one tells
		w, err = begin(n.tell)
		return err
	})
	return n, w
}

// gone follows an entry until it is told to be gone, with as many watches as that takes.
func (e *env) gone(d engine.Driver, key string) {
	e.Helper()
	n, _ := e.entry(d, key)
	e.until("the end of the entry is told", func() bool {
		if n.stale() {
			n, _ = e.entry(d, key)
		}
		s, told := n.state()
		return told && s.Token == 0
	})
}

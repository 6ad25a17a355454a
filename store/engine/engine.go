// Package engine is the election protocol, once for all stores. It implements store.Store and store.Ballot on a
// [Driver], which is a connection to one service, and it names no service. A new store is a driver, and
//
//	engine.New(driver, engine.Settings{Name: "myservice://host", TTL: ttl, Pace: ttl / 4, RemovedReason: "its key was deleted"})
//
// Writers of drivers read docs/writing-a-store.md, then [Driver] and [Session] (driver.go), and examples/httpstore;
// [Handover], [ProcessBound], [Conditioner] and [Peers] only if they need them. Package drivertest has a case for each thing
// that the engine relies on. Readers of the engine read this page, then session.go, claim.go, cast.go, line.go, ballot.go,
// audit.go, observe.go and gate.go.
//
// # Words
//
//	entry    a ballot as the service keeps it. Gone: it does not stand, and never will again
//	claim    a nonce that might have an entry: of a cast under way, a ballot, or an orphan. Settled: the entry is gone
//	lost     a ballot that can't lead any more, even if its entry still stands
//	finished a session that this process does not use any more, even if the service still keeps it
//	resync   to read again what a watch has told, since a watch might lose a change
//	outage   the service does not answer. A probe is a request that the gate lets through meanwhile
//
// # A session
//
//	none ──Cast──▶ opening ──▶ open ──ended by the service, given up, or Close──▶ finished ──▶ none
//
// One goroutine, the keeper, runs from the first Cast until no session is wanted (session.go). It opens a session,
// renews it, and ends it. However a session ends, finish first tells the ballots why, then ends the lease, and only then
// the keeper lets the session go: no rival leads before this process knows that it does not lead. If a leader is still
// working then, the session ends after that work, and the keeper opens the next session meanwhile. The service removes
// all entries of a session that ends.
//
// # A claim
//
//	Cast ──Enter──▶ ballot ──Remove──▶ settled
//	          └──outcome unknown, and the caller has gone──▶ orphan ──Void──▶ settled
//
// A claim is a nonce that might have an entry (claim.go). It is settled when the entry is gone for good. A cast keeps one
// of [Slots] slots until the outcome of its request is known; an impatient caller leaves its slot to an orphan. So at
// most that many casts without an outcome exist, and those that wait for a slot get one in order. A request that was not
// sent leaves no orphan.
//
// # A ballot
//
//	            the nearest ahead has gone,                  Wait
//	waiting ────and the own entry stood then────▶ first ──────────────▶ may acknowledge
//	   │                                            │
//	   └────deleted, withdrawn, session over────────┴──▶ lost ──▶ gone
//
// A ballot never goes back. Its goroutine reads from top to bottom (line.go): stand, then finish. Two watches, of the
// own entry and of the nearest ahead, put their news into mailboxes, and ring the bell on which the goroutine rests. What
// is known counts while the goroutine reads it again. The set of entries ahead only shrinks. So if the nearest has gone and
// was the only one ahead, the ballot is first if it stands. Watches of one stream tell its own end before a later end of
// another entry: then the ballot is first within the watch's call, without a request. In every other case, once the
// nearest has gone, the engine reads the own entry or asks the service what is ahead.
//
// # What can't be explained
//
// An entry of a session that no claim accounts for ends the session; the candidate stands again (audit.go). A removal that
// the service refuses ends the session once no leader's work depends on it (refused.go). The engine has no other way to
// heal.
//
// # An observation
//
// All callers that ask for the leader of an election share one watch, and a goroutine that reads (observe.go). The leader
// that was told last and the time as of which that is right change together, under one lock.
//
// # Without a server
//
// If nothing but the peers ends sessions ([Peers]), the ballot behind asks for the session of the nearest ahead, and
// expires it once its mark has stood for its TTL (peers.go).
//
// # The gate
//
//	answered ──a request is not answered, and none sent after it──▶ outage ──an answer, or a renewal──▶ answered
//
// All requests pass one gate (gate.go). Reads have 16 places, in the order of asking; a ballot that might be first comes
// before all other reads, and a pause after an error holds no place. While the service does not answer, every request
// waits until it is let through as a probe (outage.go). The first probe is sent at once, the next after 50 ms, 100 ms,
// 200 ms and then 250 ms each; every other one is a request that opens a session. The first answer lets all waiting
// requests through. Requests that the driver sends in Keep do not wait.
//
// A watch might lose a change. So at each pace one ballot or observation resyncs: it reads again what it knows (rota.go).
//
// # Goroutines
//
// The keeper and the audit, while a session is wanted; one for each session that ends after its leader's work; one for
// each ballot, observation, orphan, and session that is looked after; maintain, for as long as the store is open; one for
// the confirmation under way; up to 16 that look at heads after a reconnection. Close waits for all of them,
// and for the calls of users that are in the driver, before it closes the driver.
//
// Locks are taken in this order: the driver's, [Engine].mu, a ballot's or observation's, the gate's or the rota's, the
// teller's. None is held while the driver or a user's function is called.
package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
)

// Settings are those of a store, which its driver has checked.
type Settings struct {
	Name   string        // of the store in errors and logs: its URL without credentials
	TTL    time.Duration // of a session that is not renewed
	Pace   time.Duration // from one confirmation to the next, and from one turn to the next; TTL/4 at most
	Logger *slog.Logger  // of outages, and of what can't be removed; default: slog.Default. Close waits a second for its handler

	Renewed func(latency time.Duration) // is called for each renewal, with the time since it was sent; may be nil. Close waits a second for it

	Lifeline Lifeline // knows the sessions of a driver with Handover; nil if there is none. Close closes it

	VirtualTime bool // the store is used within a bubble of testing/synctest, where no machine is suspended

	DenialTimeout time.Duration // how long a denial has to last before it costs a ballot or a session; 0: the first one does
	RemovedReason string        // what happened to a ballot that an operator has removed: "its key was deleted"
	RaiseTokens   string        // what an operator does if tokens are lower than before: "restore with --bump-revision"; may be empty
}

// Engine implements store.Store. New makes one.
type Engine struct {
	driver       Driver
	peers        Peers // the driver, if it is of such a service
	settings     Settings
	id           string // random: the nonces of this store begin with it
	life         *adapter.Lifecycle
	program      program
	gate         gate
	rota         rota
	confirming   chan struct{}  // has one while a confirmation is under way
	slots        chan *slot     // those that are free, in the order in which they are taken
	keeper       sync.WaitGroup // the goroutine that runs keepSessions, and those that end sessions after it
	calls        sync.WaitGroup // calls of users; one is added under mu while closed is false
	stopWatching func()         // ends the watch for suspensions
	closeOnce    sync.Once
	closed       error       // what Close returns; written once by Close
	worked       atomic.Bool // a ballot was cast, or a read of an election was answered

	mu           sync.Mutex
	closing      bool                    // guarded by mu, as are all below: Close has begun
	current      *session                // nil while there is none
	opening      *opening                // nil unless a session is wanted and there is none
	keeping      bool                    // the keeper runs
	observations map[string]*observation // by election
	detectors    map[string]*detector    // by session
	casts        uint64                  // counts nonces
}

// New returns a store on the driver, which it closes.
func New(d Driver, s Settings) *Engine {
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	e := &Engine{driver: d, settings: s, life: adapter.NewLifecycle("", false, ""), observations: map[string]*observation{}}
	e.peers, _ = d.(Peers)
	e.detectors = map[string]*detector{}
	e.life.Name = s.Name
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	e.id = hex.EncodeToString(id[:])
	e.program = newProgram(s.Logger)
	e.gate.name, e.gate.program = s.Name, &e.program
	e.confirming = make(chan struct{}, 1)
	e.slots = make(chan *slot, Slots)
	for i := range Slots {
		e.slots <- &slot{number: i}
	}
	e.life.Go(e.maintain)
	e.stopWatching = e.watchSuspensions()
	return e
}

// watchSuspensions lets the lease look at the clocks when the machine has resumed from a suspension: the lease's own timer
// would be as late as the suspension was long.
func (e *Engine) watchSuspensions() (stop func()) {
	if e.settings.VirtualTime {
		return func() {}
	}
	stop, err := suspension.Watch(func() {
		e.mu.Lock()
		s := e.current
		e.mu.Unlock()
		if s != nil {
			s.lease.Check()
		}
	})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		e.program.log(slog.LevelWarn, "can't watch for suspensions of the machine, so the end of a term might be noticed late", "store", e.settings.Name, "error", err)
	}
	return stop
}

// String returns the name of the store in errors and logs.
func (e *Engine) String() string { return e.settings.Name }

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (e *Engine) Format(f fmt.State, verb rune) { redact.Format(f, verb, e.settings.Name) }

// TTL implements store.Store.
func (e *Engine) TTL() time.Duration { return e.settings.TTL }

// Worked implements store.Store.
func (e *Engine) Worked() bool { return e.worked.Load() }

// begin begins a call of a user. Close waits until the call is done with calls.Done. ctx is asked before mu is locked: it
// might be of the program's own type, and wait for another caller.
func (e *Engine) begin(ctx context.Context) error {
	err := context.Cause(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closing: // even if ctx has ended
		return store.ErrClosed
	case err == nil:
		e.calls.Add(1)
	}
	return err
}

// call begins a call of a user, whose context also ends when the store is closed.
func (e *Engine) call(ctx context.Context) (call context.Context, done func(), err error) {
	if err := e.begin(ctx); err != nil {
		return nil, nil, err
	}
	call, end, err := e.life.Call(ctx)
	if err != nil {
		e.calls.Done()
		return nil, nil, err
	}
	return call, func() { end(); e.calls.Done() }, nil
}

// maintain confirms what the watches have told, and gives one ballot or observation its turn, at the store's pace. A
// confirmation may take longer than that: the next one is sent when it has been answered. Twice as often it looks which
// observations are getting old.
func (e *Engine) maintain() {
	for tick := 0; e.life.Calls.Err() == nil; tick++ {
		e.resyncOld()
		if tick%2 == 0 {
			e.confirmSoon()
			e.dropUnused()
			if tick > 0 { // at first nothing has been watched for long
				e.rota.advance()
			}
		}
		adapter.PauseFor(e.life.Calls, e.settings.Pace/2)
	}
}

// resyncOld reads the leader of each observation that has not been confirmed for more than 3/2 of a pace. It is called
// every half of one, so that what an observation knows is never older than two paces, or TTL/2, and the round trip of
// that read.
func (e *Engine) resyncOld() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.observations {
		if suspension.Since(o.now().AsOf) > e.settings.Pace*3/2 {
			o.resync()
		}
	}
}

// confirmSoon asks the driver to confirm what the watches of leaders have told, unless a confirmation is under way. The
// outcome is what the watches tell.
func (e *Engine) confirmSoon() {
	select {
	case e.confirming <- struct{}{}:
	default:
		return
	}
	e.life.Go(func() {
		_ = e.gate.send(e.life.Calls, plain, func() error {
			ctx, cancel := context.WithTimeout(e.life.Calls, e.settings.TTL)
			defer cancel()
			return e.driver.Confirm(ctx)
		})
		<-e.confirming
	})
}

// dropUnused drops the observations that have not been used for a TTL.
func (e *Engine) dropUnused() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for election, o := range e.observations {
		if o.callers == 0 && time.Since(o.used) >= e.settings.TTL {
			delete(e.observations, election)
			o.cancel()
		}
	}
}

// Close implements store.Store.
//
// The order matters: once closing is set, no ballot, session or call begins; then the ballots are lost and the lease is
// ended; then the calls end; then the keeper lets the session go; then the store's own work ends. So no Cast wins
// once the ballots are lost, and no other process leads before the lease has ended.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		e.mu.Lock()
		e.closing = true
		s := e.current
		e.mu.Unlock()
		if s != nil {
			s.finish(adapter.ErrClosed, store.ErrClosed)
		}
		e.life.Close()
		e.keeper.Wait()
		e.stopWatching()
		e.life.Stop()
		e.life.Wait()
		e.calls.Wait()
		e.gate.close()
		e.closed = e.driver.Close()
		e.program.flush()
		if e.settings.Lifeline != nil {
			e.settings.Lifeline.Close()
		}
	})
	return e.closed
}

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// env is what a case works with.
type env struct {
	TB
	h        Harness
	ctx      context.Context
	election string
	turns    uint64

	meter *stall.Meter // of the whole case

	// Only the case's goroutine uses these.
	failed  bool
	skipped string   // why the case has checked nothing
	leases  []*lease // of the sessions that the case has not ended

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
	if ok {
		return
	}
	e.failed = true
	e.Errorf(format, args...)
	if e.lapsed() {
		e.Logf("a session could not be renewed for its TTL of %v; %v", e.h.TTL, e.meter)
	}
	runtime.Goexit()
}

// skip ends a case that has checked nothing.
func (e *env) skip(why string) {
	e.skipped = why
	runtime.Goexit()
}

func (e *env) ok(err error, what string) {
	e.Helper()
	e.check(err == nil, "%s: %v", what, err)
}

// until waits for a condition.
func (e *env) until(what string, holds func() bool) {
	e.Helper()
	for ; !holds(); time.Sleep(max(time.Millisecond, e.h.TTL/1000)) {
		e.check(e.ctx.Err() == nil && !e.over(), "waited in vain until %s", what)
	}
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
func (e *env) enterAs(s engine.Session, n engine.Nonce) engine.Entry {
	e.Helper()
	return e.enterIn(s, e.election, n)
}

// enterIn makes the entry of a nonce in another election.
func (e *env) enterIn(s engine.Session, election string, n engine.Nonce) (entry engine.Entry) {
	e.Helper()
	e.finally("enter", func() (err error) {
		entry, err = s.Enter(e.ctx, election, n, "value")
		return err
	})
	entry.Election = election
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

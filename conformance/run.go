package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
)

// Case checks one rule that every store has to keep.
type Case struct {
	Name     string   // of the subtest
	Promises []string // those of "G1" to "G7" that it checks; none if it checks only the contract of package store
	Explains string   // the rule; a store that fails the case breaks it
	check    func(e *env)
}

// Cases returns the suite's cases, in the order in which they run.
func Cases() []Case {
	return slices.Concat(oneLeader, together, slowLinks, fencing, liveness, impatience, order, acknowledgement, news, freshness, herd,
		ownership, quiet, closing, contract, resignation, restored)
}

// Check runs the case against a harness, in a goroutine that is left behind if the case does not end in time. Upper
// bounds allow for the time for which this process stood still, and the log of a case that fails says how long that was.
func (c Case) Check(t TB, h Harness) {
	t.Helper()
	watchdog := h.Watchdog
	if watchdog == 0 {
		watchdog = time.Minute + 20*h.Expiry
	}
	// A case waits with ctx, which ends a little before the watchdog: it then says what it has been waiting for.
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	meter := stall.Start()
	defer meter.Stop()
	test := &lasting{TB: t}
	e := &env{TB: test, h: h, ctx: ctx, meter: meter, election: "conformance/" + nonce() + "/" + c.Name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer e.cleanUp()
		defer e.recover()
		c.check(e)
	}()
	timer := time.NewTimer(watchdog + watchdog/2)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		test.end()
		buf := make([]byte, 1<<20)
		t.Errorf("the case did not end within %v:\n%s", watchdog, buf[:runtime.Stack(buf, true)])
	}
	if t.Failed() {
		t.Logf("%s: %s", strings.Join(append(slices.Clone(c.Promises), "rule"), ", "), c.Explains)
		t.Logf("%v", meter)
	}
}

// lasting is a TB that reports nothing once the watchdog has given the case up, while testing's own would panic.
type lasting struct {
	TB
	mu    sync.Mutex
	ended bool // guarded by mu
}

func (l *lasting) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *lasting) Errorf(format string, args ...any) {
	l.TB.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.TB.Errorf(format, args...)
	}
}

func (l *lasting) Logf(format string, args ...any) {
	l.TB.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.TB.Logf(format, args...)
	}
}

func (l *lasting) Fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.TB.Fail()
	}
}

func nonce() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// env is the environment of a case, and its TB: FailNow ends the case's own goroutine.
type env struct {
	TB
	h        Harness
	ctx      context.Context // ends when the case has taken too long
	meter    *stall.Meter    // of the whole case
	election string          // of this case alone
	members  []*member
	closers  []func()
}

// FailNow ends the case.
func (e *env) FailNow() {
	e.TB.Fail()
	runtime.Goexit()
}

// Fatalf reports a failure and ends the case.
func (e *env) Fatalf(format string, args ...any) {
	e.TB.Helper()
	e.TB.Errorf(format, args...)
	runtime.Goexit()
}

func (e *env) recover() {
	if p := recover(); p != nil {
		e.TB.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// cleanUp heals the networks, calls the functions of onClose, the last first, and clears the election.
func (e *env) cleanUp() {
	e.closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.h.Clear(ctx, e.election); err != nil {
		e.TB.Errorf("clear election %q: %v", e.election, err)
	}
}

func (e *env) closeAll() {
	for _, m := range e.members {
		m.Heal()
		m.Delay(0)
		m.DelayReplies(0)
	}
	e.members = nil
	for len(e.closers) > 0 {
		last := e.closers[len(e.closers)-1]
		e.closers = e.closers[:len(e.closers)-1]
		last()
	}
}

func (e *env) onClose(f func()) { e.closers = append(e.closers, f) }

// member plays one process: a store with its own session, and the switches of its network.
type member struct {
	store.Store
	Faults
}

// open opens a member.
func (e *env) open() *member {
	e.TB.Helper()
	return e.closing(e.openClosed())
}

// openClosed opens a member which the case closes itself.
func (e *env) openClosed() *member {
	e.TB.Helper()
	return e.openWith(e.h.Open, 0)
}

// openLeast opens a member with the least grace.
func (e *env) openLeast() *member {
	e.TB.Helper()
	if e.h.OpenLeast == nil {
		e.Fatalf("the harness has no OpenLeast")
	}
	return e.closing(e.openWith(e.h.OpenLeast, 0))
}

// openSlow opens a member whose network has a delay in each direction from the start.
func (e *env) openSlow(delay time.Duration) *member {
	e.TB.Helper()
	return e.closing(e.openWith(e.h.Open, delay))
}

func (e *env) openWith(open func(context.Context, DialFunc) (store.Store, error), delay time.Duration) *member {
	e.TB.Helper()
	network := NewNetwork()
	network.Delay(delay)
	st, err := open(e.ctx, network.Dial)
	if err != nil {
		e.Fatalf("open a store: %v", err)
	}
	m := &member{st, network}
	if e.h.Faults != nil {
		m.Faults = e.h.Faults(st)
		m.Delay(delay)
	}
	e.members = append(e.members, m)
	return m
}

// closing closes a member at the end of the case.
func (e *env) closing(m *member) *member {
	e.onClose(func() {
		if err := m.Close(); err != nil {
			e.TB.Errorf("close a store: %v", err)
		}
	})
	return m
}

// silent are options of candidates that log nothing: the cases say what is wrong.
var silent = &leadership.CandidateOptions{Logger: slog.New(slog.DiscardHandler)}

// candidate makes a candidate that is stopped at the end of the case.
func (e *env) candidate(m *member, value string, opts *leadership.CandidateOptions) *leadership.Candidate {
	e.TB.Helper()
	if opts == nil {
		opts = silent
	}
	c, err := leadership.NewCandidate(m, e.election, value, opts)
	e.ok(err, "make a candidate")
	e.onClose(c.Stop)
	return c
}

// run runs a candidate in the background, until it is stopped.
func (e *env) run(c *leadership.Candidate, lead func(context.Context, *leadership.Term) error) {
	go func() { _ = c.Run(context.Background(), lead) }() // Done waits for it
}

// changes returns what a follower sees, until it is stopped.
func (e *env) changes(f *leadership.Follower) <-chan leadership.Leader {
	seen := make(chan leadership.Leader, 100)
	go func() {
		for leader := range f.Changes(context.Background()) {
			seen <- leader
		}
	}()
	return seen
}

// stand lets a candidate stand in the background, and returns once its ballot is there.
func (e *env) stand(m *member, value string, opts *leadership.CandidateOptions) *leadership.Candidate {
	e.TB.Helper()
	c := e.candidate(m, value, opts)
	e.standing(m, value, func() { e.run(c, leadership.Lead) })
	return c
}

// standing calls start, waits until one more ballot stands, and gives its candidate a moment to learn that.
func (e *env) standing(m *member, value string, start func()) {
	e.TB.Helper()
	before := len(e.ballots(m))
	start()
	e.until(fmt.Sprintf("the ballot of %s stands", value), func() bool { return len(e.ballots(m)) == before+1 })
	e.pass(e.h.TTL / 500)
}

// follower makes a follower that is stopped at the end of the case.
func (e *env) follower(m *member) *leadership.Follower {
	e.TB.Helper()
	f, err := leadership.NewFollower(m, e.election, &leadership.FollowerOptions{Logger: silent.Logger})
	e.ok(err, "make a follower")
	e.onClose(f.Stop)
	return f
}

// done waits until a stopped candidate or follower has ended.
func (e *env) done(s interface{ Done() <-chan struct{} }) {
	e.TB.Helper()
	select {
	case <-s.Done():
	case <-e.ctx.Done():
		e.Fatalf("waited in vain until Done was closed")
	}
}

// cast casts a ballot. It tries again if the store could not reach the service.
func (e *env) cast(m *member, value string) store.Ballot {
	e.TB.Helper()
	b, err := tryCast(e.ctx, m, e.election, value)
	e.ok(err, "cast the ballot of %s", value)
	return b
}

// tryCast casts a ballot. It tries again if the store could not reach the service.
func tryCast(ctx context.Context, m *member, election, value string) (store.Ballot, error) {
	b, err := m.Cast(ctx, election, value)
	for errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil {
		b, err = m.Cast(ctx, election, value)
	}
	return b, err
}

// campaign returns a candidate's next term. It tries again if the store could not reach the service.
func (e *env) campaign(c *leadership.Candidate) *leadership.Term {
	e.TB.Helper()
	term, err := c.Campaign(e.ctx)
	for errors.Is(err, store.ErrUnavailable) && e.ctx.Err() == nil {
		term, err = c.Campaign(e.ctx)
	}
	e.ok(err, "campaign")
	return term
}

// first waits until a ballot is first.
func (e *env) first(b store.Ballot) {
	e.TB.Helper()
	e.ok(b.Wait(e.ctx), "wait to be first")
}

func (e *env) withdraw(b store.Ballot) {
	e.TB.Helper()
	e.ok(b.Withdraw(e.ctx), "withdraw")
}

// acknowledge acknowledges. It tries again if the outcome is unknown, since a connection can break at any time.
func (e *env) acknowledge(b store.Ballot, value string) store.Leader {
	e.TB.Helper()
	l, err := e.tryAcknowledge(b, value)
	e.ok(err, "acknowledge as %s", value)
	return l
}

func (e *env) tryAcknowledge(b store.Ballot, value string) (store.Leader, error) {
	e.TB.Helper()
	l, err := b.Acknowledge(e.ctx, value)
	for ; e.ctx.Err() == nil && (errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable)); l, err = b.Acknowledge(e.ctx, value) {
		e.TB.Logf("acknowledge as %s again: %v", value, err)
	}
	return l, err
}

func (e *env) ballots(m *member) []store.Standing {
	e.TB.Helper()
	list, err := m.Ballots(e.ctx, e.election)
	e.ok(err, "list the ballots")
	return list
}

func (e *env) leader(m *member) store.Leader {
	e.TB.Helper()
	known, err := m.Observe(e.ctx, e.election, nil)
	e.ok(err, "read the leader")
	return known.Leader
}

// next waits for a leader that differs from prev.
func (e *env) next(ctx context.Context, m *member, prev store.Leader) (store.Leader, error) {
	for last := (store.Known{Leader: prev}); ; {
		known, err := m.Observe(ctx, e.election, &last)
		if err == nil {
			err = isNews(known, last)
		}
		if err != nil || known.Leader != prev {
			return known.Leader, err
		}
		last = known
	}
}

// isNews returns an error if Observe has returned what its caller knew.
func isNews(known, prev store.Known) error {
	if known.Leader == prev.Leader && !known.AsOf.After(prev.AsOf) {
		return fmt.Errorf("it returned %v to a caller that knew %v", known, prev)
	}
	return nil
}

// until waits until a condition holds.
func (e *env) until(what string, condition func() bool) {
	e.TB.Helper()
	tick := time.NewTicker(max(time.Millisecond, e.h.TTL/200))
	defer tick.Stop()
	held := false
	defer func() { // also if the condition has ended the case, since one of its requests ended with the context
		if !held && e.ctx.Err() != nil {
			e.TB.Errorf("waited in vain until %s", what)
		}
	}()
	for !condition() {
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			runtime.Goexit()
		}
	}
	held = true
}

// during checks for some time that a condition holds.
func (e *env) during(d time.Duration, what string, condition func() bool) {
	e.TB.Helper()
	tick := time.NewTicker(max(time.Millisecond, d/500))
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		if !condition() {
			e.Fatalf("it did not hold that %s", what)
		}
	}
}

// moment is when a time began that has an upper bound.
type moment struct {
	at      time.Time
	stalled time.Duration // how long this process had stood still
}

func (e *env) begin() moment { return moment{time.Now(), e.meter.Stalled()} }

// left returns how much of an upper bound is left: what is promised, and the time for which this process has stood still
// since the moment.
func (e *env) left(since moment, promised time.Duration) time.Duration {
	return promised + e.meter.Stalled() - since.stalled - time.Since(since.at)
}

// within checks that what happens now comes within what is promised.
func (e *env) within(since moment, promised time.Duration, what string) {
	e.TB.Helper()
	took := time.Since(since.at)
	e.Logf("%s after %v", what, took)
	e.check(e.left(since, promised) >= 0, "%s after %v, not within %v: %v", what, took, promised, e.meter)
}

// patiently calls f with a context that ends when nothing is left of the time promised.
func (e *env) patiently(promised time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(e.ctx)
	began := e.begin()
	var watching sync.WaitGroup
	watching.Go(func() {
		for left := promised; left > 0; left = e.left(began, promised) {
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
		}
		cancel(fmt.Errorf("not within %v: %v", promised, e.meter))
	})
	defer watching.Wait()
	defer cancel(nil)
	return f(ctx)
}

// receive takes a value from a channel.
func receive[T any](e *env, ch <-chan T, what string) T {
	e.TB.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			e.Fatalf("channel closed while waiting for %s", what)
		}
		return v
	case <-e.ctx.Done():
		e.Fatalf("waited in vain for %s", what)
	}
	panic("unreachable")
}

func (e *env) ok(err error, format string, args ...any) {
	e.TB.Helper()
	if err != nil {
		e.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

func (e *env) check(ok bool, format string, args ...any) {
	e.TB.Helper()
	if !ok {
		e.Fatalf(format, args...)
	}
}

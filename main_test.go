package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain checks that no test of the package left a goroutine behind: promise G7, for all of them.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // most candidates log what they do
	goleak.VerifyTestMain(m)
}

// The times of the stores that a world opens. They come out in whole seconds, so that tests can name exact instants.
const (
	ttl   = 12 * time.Second
	renew = 3 * time.Second // from one renewal to the next: TTL/4
	valid = 8 * time.Second // how long a renewal makes the lease last: TTL less a grace of TTL/3
)

const election = "database/primary"

var background = context.Background()

// world is a service of its own in virtual time, with an observer whose line never fails.
type world struct {
	*testing.T
	service  *memory.Service
	observer *memory.Store
	stores   []*memory.Store // all that were opened, the observer first
	began    time.Time
}

// virtual runs a test in virtual time. It fails if anything is left running after the test's cleanups.
func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	defer watchdog(t.Name())()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, service: memory.NewService(), began: time.Now()}
		w.observer = w.open()
		test(w)
	})
}

// virtualRun is virtual for a subtest.
func virtualRun(t *testing.T, name string, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { virtual(t, test) })
}

// often returns how often a test repeats what depends on luck: ten times less if not all tests are run.
func often(times int) int {
	if !whole.Tests() {
		return times / 10
	}
	return times
}

// watchdog ends the tests, and prints the stacks of all goroutines, if a test does not end. Virtual time might stop
// because a goroutine spins, or go on for ever because stores renew their sessions while the test is stuck.
func watchdog(name string) (stop func() bool) {
	return time.AfterFunc(2*time.Minute, func() {
		debug.SetTraceback("all")
		panic(name + " is stuck")
	}).Stop
}

// open opens a store: the session of another process.
func (w *world) open() *memory.Store {
	w.Helper()
	st, err := memory.Open(w.service, &memory.Config{TTL: ttl})
	require.NoError(w, err)
	w.Cleanup(func() { _ = st.Close() })
	w.stores = append(w.stores, st)
	synctest.Wait() // the session is open
	return st
}

func (w *world) candidate(st store.Store, value string, opts *leadership.CandidateOptions) *leadership.Candidate {
	w.Helper()
	c, err := leadership.NewCandidate(st, election, value, opts)
	require.NoError(w, err)
	w.Cleanup(func() { w.end(c) })
	return c
}

func (w *world) follower(st store.Store, opts *leadership.CandidateOptions) *leadership.Follower {
	w.Helper()
	if opts == nil {
		opts = &leadership.CandidateOptions{}
	}
	f, err := leadership.NewFollower(st, election, &leadership.FollowerOptions{Logger: opts.Logger, Events: opts.Events})
	require.NoError(w, err)
	w.Cleanup(func() { w.end(f) })
	return f
}

// end stops a candidate or follower and waits until nothing is left, except a term that the test did not give back.
func (w *world) end(s stoppable) {
	s.Stop()
	select {
	case <-s.Done():
	case <-time.After(10 * ttl):
	}
}

// campaign is Campaign of a candidate that is going to be elected.
func (w *world) campaign(c *leadership.Candidate) *leadership.Term {
	w.Helper()
	term, err := c.Campaign(background)
	require.NoError(w, err)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(background, ttl)
		defer cancel()
		_ = term.Withdraw(ctx)
	})
	return term
}

// elected returns the term of a candidate "a" with a store of its own.
func (w *world) elected() (*memory.Store, *leadership.Candidate, *leadership.Term) {
	w.Helper()
	st := w.open()
	c := w.candidate(st, "a", nil)
	return st, c, w.campaign(c)
}

// campaigning is Campaign in the background.
func campaigning(ctx context.Context, c *leadership.Candidate) <-chan error {
	return async(func() error { _, err := c.Campaign(ctx); return err })
}

// lead makes another process the acknowledged leader and returns its term.
func (w *world) lead(st store.Store, value string) *leadership.Term {
	w.Helper()
	term := w.campaign(w.candidate(st, value, nil))
	require.NoError(w, term.Acknowledge(background))
	return term
}

// at lets time pass until d after the world began, and then lets everything come to rest.
func (w *world) at(d time.Duration) {
	w.Helper()
	require.False(w, time.Now().After(w.began.Add(d)), "it is %v already", time.Since(w.began))
	time.Sleep(time.Until(w.began.Add(d)))
	synctest.Wait()
}

// until lets time pass until a condition holds: a candidate backs off between two terms.
func (w *world) until(holds func() bool) {
	w.Helper()
	for end := time.Now().Add(ttl); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if holds() {
			return
		}
		require.True(w, time.Now().Before(end), "it did not come to that")
	}
}

// now returns how long the world has existed.
func (w *world) now() time.Duration { return time.Since(w.began) }

// leader returns the value of the acknowledged leader as the service has it.
func (w *world) leader() string {
	w.Helper()
	leader, err := storetest.Leader(background, w.observer, election, nil)
	require.NoError(w, err)
	return leader.Value
}

// ballots returns the values of the ballots that stand, first in line first.
func (w *world) ballots() []string {
	w.Helper()
	list, err := w.observer.Ballots(background, election)
	require.NoError(w, err)
	values := []string{}
	for _, b := range list {
		values = append(values, b.Value)
	}
	return values
}

// async runs a call in the background and returns where its result comes.
func async(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// run is Run in the background.
func run(c *leadership.Candidate, lead func(ctx context.Context, term *leadership.Term) error) <-chan error {
	return async(func() error { return c.Run(background, lead) })
}

// turns runs a candidate until its function has been called in the last turn, and stops it.
func (w *world) turns(c *leadership.Candidate, last int, lead func(ctx context.Context, term *leadership.Term) error) {
	w.Helper()
	enough, turn := make(chan struct{}), 0
	result := run(c, func(ctx context.Context, term *leadership.Term) error {
		err := lead(ctx, term)
		if turn++; turn == last {
			close(enough)
			<-ctx.Done()
		}
		return err
	})
	<-enough
	w.stops(c, result)
}

// stops halts a candidate or follower and checks that a call of it returns nil.
func (w *world) stops(s stoppable, result <-chan error) {
	w.Helper()
	halt(s)
	require.NoError(w, <-result)
}

// withoutErrors returns options whose hook fails the test if it is told of an error.
func withoutErrors(w *world) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Events: hooks{
		Error: func(_ string, err error, _ time.Duration) { w.Errorf("the hook was told %q", err) },
	}.tell}
}

// termOf returns the term in which a candidate leads, and nil if it does not lead.
func termOf(c *leadership.Candidate) *leadership.Term {
	term, _ := c.Term()
	return term
}

// hooks are functions for events of each kind.
type hooks struct {
	Cast, TermBegan, ResignationRequested func(election string, token uint64)
	TermEnded                             func(election string, token uint64, cause error)
	Acknowledged                          func(election string, token uint64, leader leadership.Leader)
	InJeopardy, GivenBack                 func(election string, token uint64, d time.Duration)
	LeaderChanged                         func(election string, leader leadership.Leader)
	Error                                 func(election string, err error, retryIn time.Duration)
}

// tell calls the function for an event.
func (h hooks) tell(e leadership.Event) {
	switch {
	case e.Kind == leadership.BallotCast && h.Cast != nil:
		h.Cast(e.Election, e.Token)
	case e.Kind == leadership.TermBegan && h.TermBegan != nil:
		h.TermBegan(e.Election, e.Token)
	case e.Kind == leadership.ResignationRequested && h.ResignationRequested != nil:
		h.ResignationRequested(e.Election, e.Token)
	case e.Kind == leadership.TermEnded && h.TermEnded != nil:
		h.TermEnded(e.Election, e.Token, e.Err)
	case e.Kind == leadership.Acknowledged && h.Acknowledged != nil:
		h.Acknowledged(e.Election, e.Token, e.Leader)
	case e.Kind == leadership.RenewalOverdue && h.InJeopardy != nil:
		h.InJeopardy(e.Election, e.Token, e.Remaining)
	case e.Kind == leadership.BallotWithdrawn && h.GivenBack != nil:
		h.GivenBack(e.Election, e.Token, e.After)
	case e.Kind == leadership.LeaderChanged && h.LeaderChanged != nil:
		h.LeaderChanged(e.Election, e.Leader)
	case e.Kind == leadership.AttemptFailed && h.Error != nil:
		h.Error(e.Election, e.Err, e.RetryIn)
	}
}

// exits are the ways in which a user's function does not return.
var exits = map[string]struct {
	leave func()
	says  string // what the error says
}{
	"panic":  {func() { panic("boom") }, "boom"},
	"Goexit": {runtime.Goexit, "runtime.Goexit"},
}

// events runs a candidate, and returns where true comes when a term begins, and false when it ends.
func events(c *leadership.Candidate) <-chan bool {
	elected := make(chan bool, 1000)
	run(c, func(ctx context.Context, term *leadership.Term) error {
		elected <- true
		defer func() { elected <- false }()
		return leadership.Lead(ctx, term)
	})
	return elected
}

// pending reports whether nothing has come from a channel by the time that everything is at rest.
func pending[T any](ch <-chan T) bool {
	synctest.Wait()
	return len(ch) == 0
}

// diary keeps what happened, in order.
type diary struct {
	mu      sync.Mutex
	entries []string // guarded by mu
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.entries...)
}

func (d *diary) count(entry string) (n int) {
	for _, e := range d.all() {
		if e == entry {
			n++
		}
	}
	return n
}

func (d *diary) has(entry string) bool { return slices.Contains(d.all(), entry) }

// stoppable is a candidate or a follower.
type stoppable interface {
	Stop()
	Done() <-chan struct{}
}

// halt stops a candidate or follower and waits until nothing of it is left.
func halt(s stoppable) {
	s.Stop()
	<-s.Done()
}

// journal keeps what a logger writes.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns all of it.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// logger returns a logger that writes into the journal.
func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// heard returns options whose logger and Error hook write into the journal; the hook only errors that match want.
func (j *journal) heard(want error) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Logger: j.logger(), Events: hooks{
		Error: func(_ string, err error, in time.Duration) {
			if errors.Is(err, want) {
				fmt.Fprintln(j, "hook:", err, in)
			}
		},
	}.tell}
}

// fakeStore does what store/memory never does. Methods that a test does not replace go to the store below.
type fakeStore struct {
	store.Store
	cast    func(ctx context.Context, election, value string) (store.Ballot, error)
	observe func(ctx context.Context, election string, prev *store.Known) (store.Known, error)
	worked  func() bool
}

func (f *fakeStore) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	if f.cast == nil {
		return f.Store.Cast(ctx, election, value)
	}
	return f.cast(ctx, election, value)
}

func (f *fakeStore) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if f.observe == nil {
		return f.Store.Observe(ctx, election, prev)
	}
	return f.observe(ctx, election, prev)
}

func (f *fakeStore) Worked() bool {
	if f.worked == nil {
		return f.Store.Worked()
	}
	return f.worked()
}

// changing returns a store that passes each ballot through a function before the core sees it.
func changing(st store.Store, change func(b *fakeBallot)) *fakeStore {
	return &fakeStore{
		Store: st,
		cast: func(ctx context.Context, election, value string) (store.Ballot, error) {
			ballot, err := st.Cast(ctx, election, value)
			if err != nil {
				return nil, err
			}
			b := &fakeBallot{Ballot: ballot, asked: new(atomic.Int32)}
			change(b)
			return b, nil
		},
	}
}

// fakeBallot is a ballot with some of its methods replaced.
type fakeBallot struct {
	store.Ballot
	token       uint64 // zero if it is not replaced
	lease       *store.Lease
	onLease     func() // called before the lease is returned
	lost        chan struct{}
	frozen      chan struct{} // while it is open, Lost does not return, except for the first call, from before the term
	asked       *atomic.Int32 // how often Lost was called; nil unless frozen
	wait        func(ctx context.Context) error
	acknowledge func(ctx context.Context, value string) (store.Leader, error)
	withdraw    func(ctx context.Context) error
}

func (b *fakeBallot) Token() uint64 {
	if b.token == 0 {
		return b.Ballot.Token()
	}
	return b.token
}

func (b *fakeBallot) Lease() *store.Lease {
	if b.onLease != nil {
		b.onLease()
	}
	if b.lease == nil {
		return b.Ballot.Lease()
	}
	return b.lease
}

func (b *fakeBallot) Lost() <-chan struct{} {
	if b.frozen != nil && b.asked.Add(1) > 1 {
		<-b.frozen
	}
	if b.lost == nil {
		return b.Ballot.Lost()
	}
	return b.lost
}

func (b *fakeBallot) Err() error {
	if b.lost == nil {
		return b.Ballot.Err()
	}
	select {
	case <-b.lost:
		return store.ErrLost
	default:
		return nil
	}
}

func (b *fakeBallot) Wait(ctx context.Context) error {
	if b.wait == nil {
		return b.Ballot.Wait(ctx)
	}
	return b.wait(ctx)
}

func (b *fakeBallot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	if b.acknowledge == nil {
		return b.Ballot.Acknowledge(ctx, value)
	}
	return b.acknowledge(ctx, value)
}

func (b *fakeBallot) Withdraw(ctx context.Context) error {
	if b.withdraw == nil {
		return b.Ballot.Withdraw(ctx)
	}
	return b.withdraw(ctx)
}

// isDone reports whether Done is closed when everything is at rest.
func isDone(s stoppable) bool {
	synctest.Wait()
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// stacks returns the stacks of all goroutines. runtime.NumGoroutine also counts some that are about to end.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// campaignOnce is a caller of Campaign that works until its term ends.
func campaignOnce(c *leadership.Candidate) {
	if term, err := c.Campaign(background); err == nil {
		<-term.Context().Done()
		_ = term.Withdraw(background)
	}
}

// serve is a leader's function that acknowledges and leads until the term ends.
func serve(ctx context.Context, term *leadership.Term) error {
	if err := term.Acknowledge(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

var errTakeover = errors.New("the disk is full")

var errChangedMind = errors.New("changed my mind")

// handler is a log handler that calls a function with each message that it is given.
type handler struct {
	slog.Handler
	handle func(message string)
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h handler) Handle(_ context.Context, r slog.Record) error {
	h.handle(r.Message)
	return nil
}

// handledBy returns options with such a handler.
func handledBy(handle func(message string)) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Logger: slog.New(handler{slog.DiscardHandler, handle})}
}

package leadership_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
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

// termOf returns the term in which a candidate leads, and nil if it does not lead.
func termOf(c *leadership.Candidate) *leadership.Term {
	term, _ := c.Term()
	return term
}

// exits are the ways in which a user's function does not return.
var exits = map[string]struct {
	leave func()
	says  string // what the error says
}{
	"panic":  {func() { panic("boom") }, "boom"},
	"Goexit": {runtime.Goexit, "runtime.Goexit"},
}

// pending reports whether nothing has come from a channel by the time that everything is at rest.
func pending[T any](ch <-chan T) bool {
	synctest.Wait()
	return len(ch) == 0
}

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

func ended() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

var errTakeover = errors.New("the disk is full")

var errChangedMind = errors.New("changed my mind")

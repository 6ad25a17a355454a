package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

const (
	testTTL   = 12 * time.Second
	testLease = 8 * time.Second // TTL less a grace of a third
	testBound = testTTL + time.Second
)

// world is a service in virtual time, and a runner whose commands are fakes.
type world struct {
	*testing.T
	service  *memory.Service
	store    *memory.Store // the runner's
	observer *memory.Store
	signals  chan os.Signal
	runner   *runner
	began    time.Time

	mu       sync.Mutex
	commands []*fake               // guarded by mu, as are all below: those that were started
	refuse   error                 // the error with which starting a command fails
	slow     time.Duration         // how long starting a command takes; constant
	answer   func(line string) int // the exit code of --ready-exec; called under mu
	starts   func()                // called as a command is started; nil: does nothing
}

func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	watchdog := time.AfterFunc(2*time.Minute, func() { panic(t.Name() + " is stuck") })
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, service: memory.NewService(), signals: make(chan os.Signal, 1), began: time.Now()}
		w.store, w.observer = w.open(), w.open()
		w.runner = &runner{
			election: "job", value: "a", env: []string{"A=1"}, start: w.start, signals: w.signals, bound: testBound, resignTimeout: 30 * time.Second,
			log: slog.New(slog.DiscardHandler), store: w.store,
		}
		test(w)
	})
}

func (w *world) open() *memory.Store {
	st, err := memory.Open(w.service, &memory.Config{TTL: testTTL})
	require.NoError(w, err)
	w.Cleanup(func() { _ = st.Close() })
	return st
}

// run starts the runner, which ends with the test.
func (w *world) run() <-chan outcome {
	over, gone := make(chan outcome, 1), make(chan struct{})
	go func() {
		defer close(gone)
		over <- w.runner.run()
	}()
	w.Cleanup(func() {
		for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM} {
			select {
			case w.signals <- s:
			case <-gone:
			}
		}
		for _, c := range w.commands {
			close(c.results)
		}
		<-gone
	})
	synctest.Wait()
	return over
}

// token returns the token of the first in line.
func (w *world) token() uint64 {
	w.Helper()
	list, err := w.observer.Ballots(w.Context(), "job")
	require.NoError(w, err)
	require.NotEmpty(w, list)
	return list[0].Token
}

// at lets time pass until d after the world began.
func (w *world) at(d time.Duration) {
	w.Helper()
	require.False(w, time.Now().After(w.began.Add(d)), "it is %v already", w.now())
	time.Sleep(time.Until(w.began.Add(d)))
	synctest.Wait()
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// signal sends a signal to the runner.
func (w *world) signal(s syscall.Signal) {
	w.signals <- s
	synctest.Wait()
}

// ballots returns the values of the ballots that stand.
func (w *world) ballots() (values []string) {
	w.Helper()
	list, err := w.observer.Ballots(w.Context(), "job")
	require.NoError(w, err)
	for _, b := range list {
		values = append(values, b.Value)
	}
	return values
}

// leader returns the value of the acknowledged leader.
func (w *world) leader() string {
	w.Helper()
	known, err := w.observer.Observe(w.Context(), "job", nil)
	require.NoError(w, err)
	return known.Leader.Value
}

// rival casts a ballot of another process.
func (w *world) rival() store.Ballot {
	w.Helper()
	b, err := w.observer.Cast(w.Context(), "job", "rival")
	require.NoError(w, err)
	return b
}

// fake is a process that does what the test says.
type fake struct {
	spec
	world   *world
	results chan guard.Result
	kill    func() // by Kill, if it is set

	mu    sync.Mutex
	ends  time.Time // guarded by mu, as is all below: when its lease ends, by the last renewal
	moves int       // renewals
	heard []string  // the calls of its methods
}

// start is the runner's startFunc.
func (w *world) start(s spec, lease func() time.Duration) (process, error) {
	defer time.Sleep(w.slow) // the command runs before startFunc returns
	if w.starts != nil {
		w.starts()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return nil, w.refuse
	}
	c := &fake{spec: s, world: w, results: make(chan guard.Result, 10), ends: time.Now().Add(lease())}
	w.commands = append(w.commands, c)
	return c, nil
}

// started returns how many commands were started.
func (w *world) started() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.commands)
}

// program returns the command that was started as the nth, from 1 on.
func (w *world) program(n int) *fake {
	w.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(w, w.commands, n)
	return w.commands[n-1]
}

func (w *world) refuseWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

func (c *fake) hear(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, what)
}

// told returns the calls of the command's methods, in order.
func (c *fake) told() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.heard)
}

// exit ends the command.
func (c *fake) exit(r guard.Result) {
	c.results <- r
	synctest.Wait()
}

func (c *fake) Renew(lease func() time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends, c.moves = time.Now().Add(lease()), c.moves+1
	return nil
}

func (c *fake) Signal(s syscall.Signal) error { c.hear(s.String()); return nil }
func (c *fake) Stop(timeout time.Duration)    { c.hear("stop in " + timeout.String()) }
func (c *fake) Kill() {
	c.hear("kill")
	if c.kill != nil {
		c.kill()
	}
}
func (c *fake) Wait() guard.Result { return <-c.results }
func (c *fake) Run(_ context.Context, command []string) (int, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.world.answer(command[2]), nil
}

// lease returns when the command's lease ends, as far as it knows, and how many renewals it was told of.
func (c *fake) lease() (ends time.Time, moves int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ends, c.moves
}

package cron

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl    = 10 * time.Second
	period = time.Minute
)

// world is processes in virtual time that run a job each minute, and the runs.
type world struct {
	*testing.T
	service *memory.Service
	began   time.Time

	mu   sync.Mutex
	runs []string // guarded by mu
}

func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&world{T: t, service: memory.NewService(), began: time.Now()})
	})
}

// job is a job that a process runs.
type job = func(ctx context.Context, token uint64) error

// process is a candidate with its scheduler.
type process struct {
	store     *memory.Store
	candidate *leadership.Candidate
}

// start starts a process that runs the job. The end of the test ends it.
func (w *world) start(name string, job job) *process {
	w.Helper()
	st, err := memory.Open(w.service, &memory.Config{TTL: ttl})
	require.NoError(w, err)
	c, err := leadership.NewCandidate(st, "reports", name, nil)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c, gocron.DurationJob(period), job) }()
	w.Cleanup(func() {
		cancel()
		require.ErrorIs(w, <-ended, context.Canceled)
		require.NoError(w, st.Close())
	})
	synctest.Wait()
	return &process{store: st, candidate: c}
}

// note notes a run: who, when, and with which token.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, fmt.Sprintf(format, args...)+fmt.Sprintf(" after %v", time.Since(w.began).Round(time.Second)))
}

func (w *world) at(d time.Duration) {
	w.Helper()
	time.Sleep(time.Until(w.began.Add(d)))
	synctest.Wait()
}

// notes returns what was noted since the last call.
func (w *world) notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := w.runs
	w.runs = nil
	return runs
}

// The process that leads runs the job, and after a crash the next.
func TestOneProcessRuns(t *testing.T) {
	virtual(t, func(w *world) {
		var processes []*process
		for _, name := range []string{"a", "b", "c"} {
			processes = append(processes, w.start(name, func(_ context.Context, token uint64) error {
				w.note("%s %d", name, token)
				return nil
			}))
		}
		w.at(3*period + time.Second)
		token := processes[0].candidate.Status().Token
		require.Equal(w, []string{
			fmt.Sprintf("a %d after 1m0s", token), fmt.Sprintf("a %d after 2m0s", token), fmt.Sprintf("a %d after 3m0s", token),
		}, w.notes())

		processes[0].store.Faults().Cut()
		w.at(5*period + time.Second)
		token = processes[1].candidate.Status().Token
		require.Equal(w, []string{fmt.Sprintf("b %d after 4m0s", token), fmt.Sprintf("b %d after 5m0s", token)}, w.notes())
		processes[0].store.Faults().Heal()
	})
}

// A job that still runs at its next times is not started again. Its context ends with the term, and the next leader
// waits until the job has ended.
func TestNextLeaderWaitsForTheJob(t *testing.T) {
	virtual(t, func(w *world) {
		slow := func(name string) job {
			return func(ctx context.Context, _ uint64) error {
				w.note("%s begins", name)
				<-ctx.Done()
				w.note("%s should end", name)
				time.Sleep(period)
				w.note("%s ends", name)
				return ctx.Err()
			}
		}
		a := w.start("a", slow("a"))
		w.start("b", slow("b"))
		w.at(3*period + period/2)
		a.candidate.Resign()
		w.at(5*period + time.Second)
		require.Equal(w, []string{
			"a begins after 1m0s", "a should end after 3m30s", "a ends after 4m30s", "b begins after 5m0s",
		}, w.notes())
	})
}

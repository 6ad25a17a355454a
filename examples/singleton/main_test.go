package main

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// turn is one run of the job.
type turn struct {
	by         string
	token      uint64
	began, end time.Duration // since the beginning of the test
}

// The leader is cut off from the service while it works. Its work stops before the other process begins, and the job runs
// in each period.
//
// In the bubble of synctest.Test all clocks are virtual: this hour takes some milliseconds. Each store plays one process,
// on a service of the test's own.
func TestLeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, period, work = 10 * time.Second, time.Minute, 20 * time.Second
		service, start := memory.NewService(), time.Now()
		var mu sync.Mutex
		var turns []turn // guarded by mu

		process := func(name string) *memory.Store {
			st, err := memory.Open(service, &memory.Config{TTL: ttl})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- elect(ctx, st, name, &job{every: period, work: func(ctx context.Context, token uint64) error {
					began := time.Since(start)
					select {
					case <-time.After(work):
					case <-ctx.Done():
					}
					mu.Lock()
					defer mu.Unlock()
					turns = append(turns, turn{name, token, began, time.Since(start)})
					return context.Cause(ctx)
				}})
			}()
			t.Cleanup(func() {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				require.NoError(t, st.Close())
			})
			synctest.Wait() // it stands
			return st
		}
		a := process("a")
		process("b")

		time.Sleep(30*period + work/2) // "a" works for the 31st time
		a.Faults().Cut()
		time.Sleep(30 * period)
		synctest.Wait() // both processes are idle

		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(t, len(turns), 60)
		for i, turn := range turns[1:] {
			last := turns[i]
			require.GreaterOrEqual(t, turn.began, last.end, "two processes work at once")
			require.GreaterOrEqual(t, turn.token, last.token, "tokens never go back")
			require.LessOrEqual(t, turn.began-last.began, period, "a period is left out")
		}
		require.Equal(t, "a", turns[30].by)
		require.Less(t, turns[30].end-turns[30].began, work, "the work of the old leader is stopped")
		require.Equal(t, "b", turns[31].by)
		require.Less(t, turns[31].began, 30*period+work/2+ttl+1, "the bound of the store: one TTL")
	})
}

func TestRun(t *testing.T) {
	const url = "memory://singleton"
	st, err := store.Open(t.Context(), url, nil)
	require.NoError(t, err)
	defer st.Close()
	f, err := leadership.NewFollower(st, election, nil)
	require.NoError(t, err)
	defer f.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, url, time.Hour) }()
	leader, err := f.Wait(ctx)
	require.NoError(t, err)
	require.Regexp(t, `^process \d+$`, leader.Value)
	cancel()
	require.NoError(t, <-ended)
}

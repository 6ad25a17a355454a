package memory_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// guardedContext is a context of the caller's own type, with a lock of the caller's.
type guardedContext struct {
	context.Context
	mu    *sync.Mutex
	asked func()
}

func (c guardedContext) Err() error {
	c.asked()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Context.Err()
}

// A caller's context may be of its own type, and block its caller. Other callers of the store do not wait: one of them
// might hold the lock for which the context waits.
func TestCallersContextBlocks(t *testing.T) {
	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	calls := map[string]func(context.Context) error{
		"Ballots":  func(ctx context.Context) error { _, err := st.Ballots(ctx, "e"); return err },
		"Observe":  func(ctx context.Context) error { _, err := st.Observe(ctx, "e", nil); return err },
		"Campaign": func(ctx context.Context) error { _, err := st.Cast(ctx, "e", "v"); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			asked, mu := make(chan struct{}), new(sync.Mutex)
			guarded := guardedContext{ctx, mu, sync.OnceFunc(func() { close(asked) })}
			mu.Lock()
			blocked, other := make(chan struct{}), make(chan error, 1)
			go func() { defer close(blocked); _ = call(guarded) }()
			<-asked
			go func() { _, err := st.Ballots(ctx, "e"); other <- err }()
			select {
			case err := <-other:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Error("the other caller waits")
			}
			cancel()
			mu.Unlock()
			<-blocked
		})
	}
}

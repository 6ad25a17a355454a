package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// The default settings, and what follows from them.
const (
	ttl     = 10 * time.Second
	grace   = ttl / 3
	renewal = ttl / 4
)

// open opens a store with the default settings that is closed when the test ends.
func open(t *testing.T, service *memory.Service) *memory.Store {
	t.Helper()
	st, err := memory.Open(service, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// pair opens two stores on one new service.
func pair(t *testing.T) (service *memory.Service, a, b *memory.Store) {
	t.Helper()
	service = memory.NewService()
	return service, open(t, service), open(t, service)
}

// stand casts a ballot in election "x".
func stand(t *testing.T, st store.Store, value string) store.Ballot {
	t.Helper()
	b, err := st.Cast(t.Context(), "x", value)
	require.NoError(t, err)
	return b
}

// lead casts a ballot in election "x" and acknowledges.
func lead(t *testing.T, st store.Store, value string) store.Ballot {
	t.Helper()
	b := stand(t, st, value)
	require.NoError(t, b.Wait(t.Context()))
	_, err := b.Acknowledge(t.Context(), value)
	require.NoError(t, err)
	return b
}

// standing returns the values of the ballots of election "x", first in line first.
func standing(t *testing.T, st store.Store) []string {
	t.Helper()
	return storetest.Values(t, st, "x")
}

// leader returns who leads election "x".
func leader(t *testing.T, st store.Store) store.Leader {
	t.Helper()
	l, err := storetest.Leader(t.Context(), st, "x", nil)
	require.NoError(t, err)
	return l
}

// isLost reports whether the store knows that the ballot is lost, when everything is at rest.
func isLost(b store.Ballot) bool {
	synctest.Wait()
	select {
	case <-b.Lost():
		return true
	default:
		return false
	}
}

func holds(b store.Ballot) bool {
	_, ok := b.Lease().Span()
	return ok
}

// result is what a call in a goroutine of its own returns. The fields may be read once done is closed.
type result[T any] struct {
	done  chan struct{}
	value T
	err   error
	at    time.Time
}

func start[T any](call func() (T, error)) *result[T] {
	r := &result[T]{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.value, r.err = call()
		r.at = time.Now()
	}()
	return r
}

// startErr is start for a call that returns only an error.
func startErr(call func() error) *result[struct{}] {
	return start(func() (struct{}, error) { return struct{}{}, call() })
}

// wait waits for the ballot in a goroutine of its own.
func wait(ctx context.Context, b store.Ballot) *result[struct{}] {
	return startErr(func() error { return b.Wait(ctx) })
}

// returned reports whether the call has returned, when everything is at rest.
func (r *result[T]) returned() bool {
	synctest.Wait()
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

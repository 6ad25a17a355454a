package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// calls are all methods that take a context, made by a store whose ballot is first or second in line.
var calls = map[string]func(ctx context.Context, st *memory.Store, first, second store.Ballot) error{
	"Campaign": func(ctx context.Context, st *memory.Store, _, _ store.Ballot) error {
		_, err := st.Cast(ctx, "x", "another")
		return err
	},
	"Leader, first call": func(ctx context.Context, st *memory.Store, _, _ store.Ballot) error {
		_, err := storetest.Leader(ctx, st, "x", nil)
		return err
	},
	"Leader, long poll": func(ctx context.Context, st *memory.Store, _, _ store.Ballot) error {
		_, err := storetest.Leader(ctx, st, "x", &store.Leader{})
		return err
	},
	"Ballots": func(ctx context.Context, st *memory.Store, _, _ store.Ballot) error {
		_, err := st.Ballots(ctx, "x")
		return err
	},
	"Wait, first":  func(ctx context.Context, _ *memory.Store, first, _ store.Ballot) error { return first.Wait(ctx) },
	"Wait, second": func(ctx context.Context, _ *memory.Store, _, second store.Ballot) error { return second.Wait(ctx) },
	"Acknowledge": func(ctx context.Context, _ *memory.Store, first, _ store.Ballot) error {
		_, err := first.Acknowledge(ctx, "v")
		return err
	},
	"Withdraw": func(ctx context.Context, _ *memory.Store, first, _ store.Ballot) error { return first.Withdraw(ctx) },
}

var outages = map[string]func(*memory.Faults){
	"cut":          (*memory.Faults).Cut,
	"replies lost": (*memory.Faults).LoseReplies,
	"slow":         func(f *memory.Faults) { f.Delay(time.Hour) },
	"slow reply":   func(f *memory.Faults) { f.Delay(2 * time.Second) },
}

// TestEveryCallReturnsSoonAfterItsContextEnds, whatever the service does: in the same instant of virtual time.
func TestEveryCallReturnsSoonAfterItsContextEnds(t *testing.T) {
	const timeout = 3 * time.Second
	for outage, fault := range outages {
		for name, call := range calls {
			if name == "Wait, first" {
				continue // the answer is known: nothing is sent
			}
			t.Run(name+", "+outage, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					_, a, _ := pair(t)
					first, second := stand(t, a, "first"), stand(t, a, "second")
					require.NoError(t, first.Wait(t.Context()))
					fault(a.Faults())
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					began := time.Now()
					err := call(ctx, a, first, second)
					require.Equal(t, timeout, time.Since(began))
					require.True(t, isContextOrUnknown(err), "%v", err)
					require.NotErrorIs(t, err, store.ErrLost)
					require.NotErrorIs(t, err, store.ErrClosed)
				})
			})
		}
	}
}

// TestEveryCallWithAnEndedContextSendsNothing.
func TestEveryCallWithAnEndedContextSendsNothing(t *testing.T) {
	for name, call := range calls {
		if name == "Withdraw" {
			continue // goes on in the background: TestWithdrawWithAnEndedContext
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, a, _ := pair(t)
				first, second := stand(t, a, "first"), stand(t, a, "second")
				require.NoError(t, first.Wait(t.Context()))
				why := errors.New("the caller's reason")
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(why)
				synctest.Wait() // both are watched
				before := a.Faults().Requests()
				require.ErrorIs(t, call(ctx, a, first, second), why)
				require.Equal(t, before, a.Faults().Requests())
			})
		})
	}
}

func isContextOrUnknown(err error) bool {
	for _, want := range []error{context.DeadlineExceeded, context.Canceled, store.ErrUnknownOutcome} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// A machine is suspended for longer than the lease lasts, or for nearly as long. No renewal is answered, no method of the
// lease is called, and its timer stood still. The lease ends all the same: as soon as the machine has resumed, or at its
// deadline.
func TestLeaseEndsWhenTheMachineResumes(t *testing.T) {
	const ttl = 30 * time.Minute
	const valid = ttl - ttl/3
	for name, sleep := range map[string]time.Duration{"past the deadline": time.Hour, "until just before": valid - 100*time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			var slept atomic.Int64
			store.Suspend(t, func() time.Duration { return time.Duration(slept.Load()) })
			driver, _, err := memory.NewDriver(memory.NewService(), memory.Config{TTL: ttl})
			require.NoError(t, err)
			st := engine.New(resuming{driver, t}, engine.Settings{Name: "memory", TTL: ttl, Pace: ttl / 4, RemovedReason: "it was removed"})
			defer st.Close()
			ballot, err := st.Cast(t.Context(), "a", "v")
			require.NoError(t, err)
			require.NoError(t, ballot.Wait(t.Context()))
			span, holds := ballot.Lease().Span()
			require.True(t, holds)
			lapsed := ballot.Lease().Lapsed(span)
			suspension.Resume()
			require.True(t, ballot.Lease().Holds(span), "the clock was set, which ends no lease")

			slept.Store(int64(sleep))
			suspension.Resume()
			<-lapsed
		})
	}
}

// resuming is a driver of a machine whose wall clock goes on while it is suspended.
type resuming struct {
	engine.Driver
	*testing.T
}

func (d resuming) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	s, proof, err := d.Driver.Open(ctx)
	proof.Sent = store.Apart(d.T, proof.Sent, time.Hour)
	return silent{s}, proof, err
}

// silent is a session that is not renewed.
type silent struct{ engine.Session }

func (s silent) Keep(ctx context.Context, _ func(engine.Proof)) error {
	<-ctx.Done()
	return errors.New("closed")
}

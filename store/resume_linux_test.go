package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// A machine is suspended for longer than the lease lasts, while a leader waits for nothing but the end of its context. No
// renewal is answered, and no timer fires for minutes. The context ends all the same, as soon as the machine has resumed.
func TestContextEndsWhenTheMachineResumes(t *testing.T) {
	const ttl = 10 * time.Minute
	var slept atomic.Int64
	store.Suspend(t, func() time.Duration { return time.Duration(slept.Load()) })
	driver, _, err := memory.NewDriver(memory.NewService(), memory.Config{TTL: ttl})
	require.NoError(t, err)
	st := engine.New(resuming{driver, t}, engine.Settings{Name: "memory", TTL: ttl, Pace: ttl / 4, RemovedReason: "it was removed"})
	defer st.Close()
	candidate, err := leadership.NewCandidate(st, "a", "v", nil)
	require.NoError(t, err)
	term, err := candidate.Campaign(t.Context())
	require.NoError(t, err)
	storetest.Jump(t)
	require.NoError(t, term.Context().Err(), "the clock was set, which ends no term")

	slept.Store(int64(time.Hour))
	storetest.Jump(t)
	<-term.Context().Done()
	require.ErrorIs(t, context.Cause(term.Context()), leadership.ErrLost)
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

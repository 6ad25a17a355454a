package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// keeping is a driver that may not remove ballots of election "x".
type keeping struct{ engine.Driver }

type keepingSession struct{ engine.Session }

func (k keeping) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	s, proof, err := k.Driver.Open(ctx)
	return keepingSession{s}, proof, err
}

func (k keepingSession) Remove(ctx context.Context, r engine.Removal) error {
	if r.Election == "x" {
		return store.ErrDenied
	}
	return k.Session.Remove(ctx, r)
}

// A store may create ballots in one election and not remove them. That costs no term of another election, and the next
// candidate leads once the store leads nowhere.
func TestDeniedRemovalCostsNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.NewService()
		d, _, err := memory.NewDriver(service, memory.Config{})
		require.NoError(t, err)
		st := engine.New(keeping{d}, engine.Settings{Name: "keeping", TTL: ttl, Pace: renewal, VirtualTime: true})
		defer func() { require.NoError(t, st.Close()) }()
		other, err := st.Cast(t.Context(), "other", "leads")
		require.NoError(t, err)
		require.NoError(t, other.Wait(t.Context()))
		for range 3 { // turns
			b, err := st.Cast(t.Context(), "x", "can't go")
			if err == nil {
				require.NoError(t, b.Wait(t.Context()))
				err = b.Withdraw(t.Context())
			}
			require.ErrorIs(t, err, store.ErrDenied)
			time.Sleep(time.Minute)
			require.NoError(t, other.Err())
			require.Positive(t, other.Lease().Remaining())
		}
		next := stand(t, open(t, service), "next")
		require.NoError(t, other.Withdraw(t.Context()))
		began := time.Now()
		require.NoError(t, next.Wait(t.Context()))
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	})
}

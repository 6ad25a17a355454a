package conformance_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// hanging is a store whose Ballots hangs from the second call on.
type hanging struct {
	*memory.Store
	calls atomic.Int64
}

func (h *hanging) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if h.calls.Add(1) == 1 {
		return h.Store.Ballots(ctx, election)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A case that ends with its context says what it was waiting for, also if a request of the condition has hung.
func TestCaseEndsWithItsContext(t *testing.T) {
	cases := conformance.Cases()
	i := slices.IndexFunc(cases, func(c conformance.Case) bool { return c.Name == "cut-off-leader-stops-first" })
	require.GreaterOrEqual(t, i, 0)
	r := &recorder{}
	synctest.Test(t, func(*testing.T) {
		h := onMemory(10 * time.Second)
		open := h.Open
		h.Open = func(ctx context.Context, dial conformance.DialFunc) (store.Store, error) {
			st, err := open(ctx, dial)
			return &hanging{Store: st.(*memory.Store)}, err
		}
		h.Faults = func(st store.Store) conformance.Faults { return st.(*hanging).Faults() }
		cases[i].Check(r, h)
	})
	require.Contains(t, r.log, "list the ballots: context deadline exceeded")
	require.Contains(t, r.log, "waited in vain until the ballot of a stands")
}

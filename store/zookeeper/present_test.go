package zookeeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The store's server may lag behind. A read of the present leader is sent behind a barrier, and its result is right as
// of the barrier.
func TestPresentLeaderIsReadBehindABarrier(t *testing.T) {
	t.Parallel()
	const calls = 20
	st, tp := openTapped(t)
	election := newElection()
	barriers := tp.Count(opMulti, theRoot)
	for range calls {
		began := time.Now()
		known, err := st.Observe(soon(t), election, nil)
		require.NoError(t, err)
		require.False(t, known.AsOf.Before(began))
	}
	require.GreaterOrEqual(t, tp.Count(opMulti, theRoot)-barriers, calls)
}

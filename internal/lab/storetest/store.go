package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// OpenURL opens a store by its URL. The end of the test closes it.
func OpenURL(t testing.TB, raw string) store.Store {
	t.Helper()
	st, err := store.Open(Soon(t), raw, nil)
	require.NoError(t, err, "%q", raw)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// Leader returns the leader of an election as soon as it differs from prev, and at once if prev is nil.
func Leader(ctx context.Context, st store.Store, election string, prev *store.Leader) (store.Leader, error) {
	var last *store.Known
	if prev != nil {
		last = &store.Known{Leader: *prev}
	}
	for {
		known, err := st.Observe(ctx, election, last)
		if err != nil || prev == nil || known.Leader != *prev {
			return known.Leader, err
		}
		last = &known // the same leader, known to be right as of a later time
	}
}

// Confirmed waits until who leads an election is known to be right as of a time from now on.
func Confirmed(t testing.TB, st store.Store, election string) {
	t.Helper()
	now := time.Now()
	for known := (store.Known{}); !known.AsOf.After(now); {
		var err error
		known, err = st.Observe(Soon(t), election, &known)
		require.NoError(t, err)
	}
}

// ConfirmedAgain waits until the service has answered to the store from now on.
func ConfirmedAgain(t testing.TB, st store.Store) {
	t.Helper()
	Confirmed(t, st, "confirmed again") // an election without candidates
}

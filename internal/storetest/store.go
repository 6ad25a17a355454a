package storetest

import (
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

// ConfirmedAgain waits until the store has confirmed its session with a request sent from now on.
func ConfirmedAgain(t testing.TB, st store.Store) {
	t.Helper()
	now := time.Now()
	Eventually(t, func() bool { return st.Confirmed().After(now) }, "a confirmation")
}

package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Calls of the store that hang delay neither the end of the term nor its report.
func TestStoreCallsThatHang(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		var happened diary
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c := w.candidate(changing(st, func(b *fakeBallot) {
			b.acknowledge = func(ctx context.Context, _ string) (store.Leader, error) { return store.Leader{}, hang(ctx) }
			b.withdraw = hang
		}), "a", &leadership.Options{Hooks: keeping(w, &happened)})
		elected, _ := c.RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		st.Faults().Cut()
		require.False(w, <-elected)
		require.Equal(w, valid, w.now())
		require.False(w, c.IsLeader())
		synctest.Wait()
		require.Contains(w, happened.all(), "8s lost 1: ballot lost: the session was not renewed before its deadline")
		c.Stop()
		require.Equal(w, valid, w.now())
	})
}

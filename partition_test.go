package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Replies are lost: the leader's requests arrive and keep its session alive, but it can't know.
func TestHolderHearsNothing(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		elected, _ := c.RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		st.Faults().LoseReplies()
		require.False(w, <-elected)
		require.Equal(w, valid, w.now())
		w.at(5 * ttl)
		require.False(w, c.IsLeader())
		st.Faults().Heal()
		require.True(w, <-elected)
		require.Equal(w, []string{"a"}, w.ballots())
	})
}

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

// A candidate alone in its election leads again after an outage longer than the TTL, with a higher token. After a
// shorter outage a candidate keeps its position in the queue.
func TestOutageOfOneAlone(t *testing.T) {
	for outage, kept := range map[time.Duration]bool{renew: true, 10 * ttl: false} {
		virtual(t, func(w *world) {
			st := w.open()
			c := w.candidate(st, "a", nil)
			var tokens []uint64
			result := async(func() error {
				return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
					tokens = append(tokens, term.Token())
					return serve(ctx, term)
				})
			})
			require.True(w, pending(result))
			st.Faults().Cut()
			w.at(outage)
			st.Faults().Heal()
			w.at(outage + renew + 100*time.Millisecond)
			require.True(w, c.IsLeader())
			require.Equal(w, "a", w.leader())
			halt(c)
			require.NoError(w, <-result)
			if kept {
				require.Len(w, tokens, 1)
			} else {
				require.Len(w, tokens, 2)
				require.IsIncreasing(w, tokens)
			}
		})
	}
}

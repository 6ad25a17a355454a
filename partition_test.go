package leadership_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// The leader is cut off. It stops leading when its lease ends, although the store still lists it as the leader, and a
// grace before another candidate leads.
func TestHolderIsCutOff(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		a, b := w.candidate(st, "a", nil), w.candidate(w.open(), "b", nil)
		a.RunForElection()
		synctest.Wait()
		b.RunForElection()
		w.at(2 * renew)
		st.Faults().Cut()
		last := 2 * renew // when the last renewal was sent
		for _, step := range []struct {
			at     time.Duration
			a, b   bool
			leader string
		}{
			{last + valid - 1, true, false, "a"},
			{last + valid, false, false, "a"},
			{last + ttl - 1, false, false, "a"},
			{last + ttl, false, true, "b"},
		} {
			w.at(step.at)
			require.Equal(w, step.a, a.IsLeader(), "a at %v", step.at)
			require.Equal(w, step.b, b.IsLeader(), "b at %v", step.at)
			require.Equal(w, step.leader, w.leader(), "at %v", step.at)
		}
		st.Faults().Heal()
		w.at(10 * ttl)
		require.True(w, b.IsLeader(), "the new leader stays leader when the old one returns")
		require.False(w, a.IsLeader())
		require.Equal(w, []string{"b", "a"}, w.ballots())
	})
}

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

// No candidate reaches the store for longer than the TTL. Afterwards there is exactly one leader, and all agree on it.
func TestOutageOfEveryone(t *testing.T) {
	virtual(t, func(w *world) {
		var candidates []*leadership.Candidate
		var followers []*leadership.Follower
		for _, value := range []string{"a", "b", "c", "d", "e"} {
			st := w.open()
			c, f := w.candidate(st, value, nil), w.follower(st, nil)
			c.RunForElection()
			f.Start()
			synctest.Wait()
			candidates, followers = append(candidates, c), append(followers, f)
		}
		require.Equal(w, []string{"a", "b", "c", "d", "e"}, w.ballots())
		for _, st := range w.stores[1:] { // all but the observer
			st.Faults().Cut()
		}
		w.at(5 * ttl)
		for _, c := range candidates {
			require.False(w, c.IsLeader())
		}
		require.Empty(w, w.ballots(), "all sessions have expired")
		for _, st := range w.stores[1:] {
			st.Faults().Heal()
		}
		w.at(6 * ttl)
		leaders := 0
		for _, c := range candidates {
			if c.IsLeader() {
				leaders++
			}
		}
		require.Equal(w, 1, leaders)
		require.Len(w, w.ballots(), 5)
		for _, f := range followers {
			leader, led := f.Leader()
			require.True(w, led)
			require.Equal(w, w.ballots()[0], leader.Value)
		}
	})
}

// The leader's ballot is deleted from outside: it steps down, and stands again at the back.
func TestBallotIsDeletedFromOutside(t *testing.T) {
	virtual(t, func(w *world) {
		a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
		var tokens []uint64
		result := async(func() error {
			return a.Run(background, func(ctx context.Context, term *leadership.Term) error {
				tokens = append(tokens, term.Token())
				err := serve(ctx, term)
				if errors.Is(err, leadership.ErrLost) {
					b.RunForElection()
					synctest.Wait() // b is in line before a comes back
				}
				return err
			})
		})
		require.True(w, pending(result))
		w.service.Clear(election)
		w.at(time.Second)
		require.False(w, a.IsLeader())
		require.Equal(w, []string{"b", "a"}, w.ballots())
		require.Equal(w, "b", w.leader())
		b.Resign()
		synctest.Wait()
		require.True(w, a.IsLeader())
		require.Len(w, tokens, 2)
		require.IsIncreasing(w, tokens)
		require.True(w, pending(result))
	})
}

// A lost notification delays the waiting candidate, but the election gets its leader.
func TestWatchGoesSilent(t *testing.T) {
	virtual(t, func(w *world) {
		term := w.lead(w.open(), "a")
		st := w.open()
		b := w.candidate(st, "b", nil)
		b.RunForElection()
		w.at(time.Second)
		st.Faults().StallWatches()
		require.NoError(w, term.Resign(background))
		w.at(2 * ttl)
		require.True(w, b.IsLeader())
	})
}

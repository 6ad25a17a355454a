package memory_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestLeaderAtOnceWherePrevIsNil(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		began := time.Now()
		require.Zero(t, leader(t, b), "no candidate ever stood")
		ballot := stand(t, a, "a")
		require.Zero(t, leader(t, b), "standing is not leading")
		require.NoError(t, ballot.Wait(t.Context()))
		require.Zero(t, leader(t, b), "being first is not leading")
		public, err := ballot.Acknowledge(t.Context(), "a")
		require.NoError(t, err)
		for _, st := range []*memory.Store{a, b} {
			require.Equal(t, public, leader(t, st))
			require.Equal(t, public, leader(t, st))
		}
		require.Zero(t, time.Since(began))
	})
}

func TestLeaderAtOnceWhereItDiffersFromPrev(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		lead(t, a, "a")
		public := leader(t, b)
		for _, prev := range []store.Leader{
			{}, {Value: "a"}, {Value: "a", Revision: public.Revision + 1}, {Value: "b", Revision: public.Revision},
		} {
			got, err := storetest.Leader(t.Context(), b, "x", &prev)
			require.NoError(t, err)
			require.Equal(t, public, got)
		}
	})
}

// TestLeaderReturnsAsSoonAsItDiffers, after one notification.
func TestLeaderReturnsAsSoonAsItDiffers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, b := pair(t)
		prev := store.Leader{}
		follow := func() *result[store.Leader] {
			r := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &prev) })
			time.Sleep(5 * ttl)
			require.False(t, r.returned(), "the same for now")
			return r
		}
		expect := func(r *result[store.Leader], value string) {
			t.Helper()
			require.True(t, r.returned())
			require.NoError(t, r.err)
			require.Equal(t, value, r.value.Value)
			require.Zero(t, time.Since(r.at))
			prev = r.value
		}
		r := follow()
		ballot := lead(t, a, "a")
		expect(r, "a")
		revision := prev.Revision
		r = follow()
		_, err := ballot.Acknowledge(t.Context(), "a")
		require.NoError(t, err)
		expect(r, "a") // acknowledged anew: another revision
		require.Greater(t, prev.Revision, revision)
		r = follow()
		require.NoError(t, ballot.Withdraw(t.Context()))
		expect(r, "")
		require.Zero(t, prev)
		r = follow()
		lead(t, a, "a")
		expect(r, "a")
		r = follow()
		service.Clear("x")
		expect(r, "")
	})
}

// TestLeaderOfElectionsThatChangeSideBySide: a change of one is no change of another.
func TestLeaderOfElectionsThatChangeSideBySide(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		var calls []*result[store.Leader]
		for _, name := range []string{"x/y", "y", "X", "x_", "x "} {
			calls = append(calls, start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, name, &store.Leader{}) }))
		}
		lead(t, a, "a")
		for _, c := range calls {
			require.False(t, c.returned())
		}
		require.NoError(t, b.Close())
	})
}

func TestLeaderCoalescesChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		r := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &store.Leader{}) })
		require.False(t, r.returned())
		b.Faults().StallWatches()
		var public store.Leader
		for range 5 {
			ballot := lead(t, a, "between")
			require.NoError(t, ballot.Withdraw(t.Context()))
		}
		lead(t, a, "last")
		public = leader(t, a)
		require.False(t, r.returned())
		b.Faults().Heal()
		require.True(t, r.returned())
		require.Equal(t, public, r.value, "the latest wins")
	})
}

// TestLeaderThatCameAndWentIsNoChange: a caller that passes the zero Leader goes on waiting if there is no leader
// again.
func TestLeaderThatCameAndWentIsNoChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		r := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &store.Leader{}) })
		require.False(t, r.returned())
		b.Faults().StallWatches()
		require.NoError(t, lead(t, a, "a").Withdraw(t.Context()))
		b.Faults().Heal()
		require.False(t, r.returned())
		lead(t, a, "a")
		require.True(t, r.returned())
	})
}

// TestLeaderNeverGoesBackInTime, over slow lines and lost replies too.
func TestLeaderNeverGoesBackInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		const changes = 300
		ballot := lead(t, a, "0")
		var all sync.WaitGroup
		all.Go(func() {
			for i := 1; i <= changes; i++ {
				time.Sleep(37 * time.Millisecond)
				switch i % 10 {
				case 2:
					b.Faults().Delay(time.Duration(i%90) * time.Millisecond)
				case 4:
					b.Faults().LoseReplies()
				case 5:
					b.Faults().Heal()
				case 7:
					b.Faults().StallWatches()
				case 9:
					b.Faults().Heal()
				}
				if _, err := ballot.Acknowledge(context.Background(), strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			}
			b.Faults().Heal()
		})
		last := store.Leader{}
		var seen int
		for last.Value != strconv.Itoa(changes) {
			next, err := storetest.Leader(t.Context(), b, "x", &last)
			require.NoError(t, err)
			require.Greater(t, next.Revision, last.Revision)
			if last.Value != "" {
				before, _ := strconv.Atoi(last.Value)
				now, _ := strconv.Atoi(next.Value)
				require.Greater(t, now, before)
			}
			last = next
			seen++
		}
		require.Greater(t, seen, changes/10)
		all.Wait()
	})
}

// TestReadingWritesNothing: a ballot's token is the index of the service's last change.
func TestReadingWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, b, "open the session")
		before := stand(t, a, "a").Token()
		for _, name := range []string{"x", "y", "never used"} {
			_, err := storetest.Leader(t.Context(), b, name, nil)
			require.NoError(t, err)
			_, err = b.Ballots(t.Context(), name)
			require.NoError(t, err)
		}
		require.Equal(t, before+1, stand(t, a, "a").Token())
	})
}

func TestLeaderWaitsForTheEndOfAnOutage(t *testing.T) {
	for name, fault := range map[string]func(*memory.Faults){
		"cut":        (*memory.Faults).Cut,
		"reply lost": (*memory.Faults).LoseReplies,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, a, b := pair(t)
				waiting := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &store.Leader{}) })
				require.False(t, waiting.returned())
				fault(b.Faults())
				asking := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", nil) })
				lead(t, a, "a")
				time.Sleep(10 * ttl)
				require.False(t, waiting.returned(), "an outage is not an error")
				require.False(t, asking.returned())
				b.Faults().Heal()
				for _, r := range []*result[store.Leader]{waiting, asking} {
					<-r.done
					require.NoError(t, r.err)
					require.Equal(t, "a", r.value.Value)
				}
			})
		})
	}
}

// TestLeaderFindsWhatAWatchMissed within a TTL.
func TestLeaderFindsWhatAWatchMissed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		r := start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &store.Leader{}) })
		require.False(t, r.returned())
		b.Faults().StallWatches()
		lead(t, a, "a")
		changed := time.Now()
		<-r.done
		require.Equal(t, "a", r.value.Value)
		require.LessOrEqual(t, r.at.Sub(changed), ttl)
	})
}

// TestLeaderTellsAThousandFollowersOnce: they share one watch, which tells who leads.
func TestLeaderTellsAThousandFollowersOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const followers = 1000
		_, a, b := pair(t)
		var calls []*result[store.Leader]
		for range followers {
			calls = append(calls, start(func() (store.Leader, error) { return storetest.Leader(t.Context(), b, "x", &store.Leader{}) }))
		}
		require.False(t, calls[0].returned())
		before := b.Faults().Requests()
		lead(t, a, "a")
		public := leader(t, a)
		for _, c := range calls {
			require.True(t, c.returned())
			require.Equal(t, public, c.value)
		}
		require.Equal(t, before, b.Faults().Requests())
	})
}

package memory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// queue opens n stores and casts a ballot through each; all but the first wait.
func queue(t *testing.T, n int) (service *memory.Service, stores []*memory.Store, ballots []store.Ballot, waits []*result[struct{}]) {
	t.Helper()
	service = memory.NewService()
	for i := range n {
		st := open(t, service)
		b := stand(t, st, fmt.Sprint(i))
		stores, ballots, waits = append(stores, st), append(ballots, b), append(waits, wait(t.Context(), b))
	}
	synctest.Wait()
	return service, stores, ballots, waits
}

func TestWaitOfTheFirstReturnsAtOnceAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, _ := pair(t)
		ballot := stand(t, a, "a")
		began := time.Now()
		for range 3 {
			require.NoError(t, ballot.Wait(t.Context()))
		}
		require.Zero(t, time.Since(began))
	})
}

// TestWaitEndsInTheOrderOfTheQueue: each leads as soon as the one ahead has gone, and not before.
func TestWaitEndsInTheOrderOfTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, _, ballots, waits := queue(t, 5)
		for i, ballot := range ballots {
			require.True(t, waits[i].returned())
			require.NoError(t, waits[i].err)
			for _, later := range waits[i+1:] {
				require.False(t, later.returned())
			}
			time.Sleep(time.Second)
			require.NoError(t, ballot.Withdraw(t.Context()))
			if i+1 < len(waits) {
				require.True(t, waits[i+1].returned())
				require.Zero(t, time.Since(waits[i+1].at), "after one notification, not after a look now and then")
			}
		}
	})
}

// TestWaitPromotesNoneWhenAMiddleOneGoes.
func TestWaitPromotesNoneWhenAMiddleOneGoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, stores, ballots, waits := queue(t, 5)
		require.NoError(t, ballots[2].Withdraw(t.Context()))
		stores[1].Faults().Expire()
		for _, w := range waits[3:] {
			require.False(t, w.returned())
		}
		require.NoError(t, ballots[0].Withdraw(t.Context()))
		require.True(t, waits[3].returned())
		require.NoError(t, waits[3].err)
		require.False(t, waits[4].returned())
	})
}

// TestWaitWakesOneOnly: a change of leader costs the withdrawal, and no other request.
func TestWaitWakesOneOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, stores, ballots, waits := queue(t, 100)
		before := make([]int, len(stores))
		for i, st := range stores {
			before[i] = st.Faults().Requests()
		}
		require.NoError(t, ballots[0].Withdraw(t.Context()))
		require.True(t, waits[1].returned())
		for i, st := range stores {
			want := 0
			if i == 0 {
				want = 1 // the withdrawal: its successor needs none
			}
			require.Equal(t, want, st.Faults().Requests()-before[i], "store %d", i)
		}
	})
}

func TestWaitReturnsTheLoss(t *testing.T) {
	for name, lose := range map[string]func(*memory.Service, *memory.Store, store.Ballot){
		"withdrawn": func(_ *memory.Service, _ *memory.Store, b store.Ballot) { _ = b.Withdraw(context.Background()) },
		"cleared":   func(s *memory.Service, _ *memory.Store, _ store.Ballot) { s.Clear("x") },
		"expired":   func(_ *memory.Service, st *memory.Store, _ store.Ballot) { st.Faults().Expire() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				service, a, b := pair(t)
				stand(t, a, "a")
				ballot := stand(t, b, "b")
				pending := wait(t.Context(), ballot)
				require.False(t, pending.returned())
				lose(service, b, ballot)
				require.True(t, pending.returned())
				require.ErrorIs(t, pending.err, store.ErrLost)
				require.Equal(t, ballot.Err(), pending.err)
				require.EqualError(t, ballot.Wait(t.Context()), ballot.Err().Error(), "and so does every later call")
			})
		})
	}
}

// TestWaitOfABallotThatIsFirstAndLost returns that it is lost.
func TestWaitOfABallotThatIsFirstAndLost(t *testing.T) {
	t.Run("first, then lost", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			_, a, _ := pair(t)
			ballot := stand(t, a, "a")
			require.NoError(t, ballot.Wait(t.Context()))
			a.Faults().Expire()
			require.True(t, isLost(ballot))
			require.ErrorIs(t, ballot.Wait(t.Context()), store.ErrLost)
		})
	})
	t.Run("lost as the predecessor goes", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			_, a, b := pair(t)
			first, second := stand(t, a, "a"), stand(t, b, "b")
			b.Faults().StallWatches() // so that both reports come at once
			pending := wait(t.Context(), second)
			require.False(t, pending.returned())
			b.Faults().Expire()
			require.NoError(t, first.Withdraw(t.Context()))
			b.Faults().Heal()
			<-pending.done
			require.ErrorIs(t, pending.err, store.ErrLost)
		})
	})
	t.Run("lost before the first look", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			_, a, _ := pair(t)
			ballot := stand(t, a, "a")
			a.Faults().StallWatches()
			a.Faults().Expire()
			time.Sleep(renewal) // which reports
			synctest.Wait()
			require.ErrorIs(t, ballot.Wait(t.Context()), store.ErrLost)
			require.True(t, isLost(ballot), "what Wait has learned, the ballot knows")
		})
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "a")
		ballot := stand(t, b, "b")
		ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, ballot.Wait(ctx), context.DeadlineExceeded)
		require.Equal(t, 3*ttl, time.Since(began))
		require.ErrorIs(t, ballot.Wait(ctx), context.DeadlineExceeded)
		require.False(t, isLost(ballot), "it goes on standing")
		require.Equal(t, []string{"a", "b"}, standing(t, b))
	})
}

// TestWaitOutlivesAnOutage in which the ballot ahead was removed.
func TestWaitOutlivesAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := stand(t, a, "a")
		pending := wait(t.Context(), stand(t, b, "b"))
		b.Faults().Cut()
		require.NoError(t, first.Withdraw(t.Context()))
		time.Sleep(ttl / 2)
		require.False(t, pending.returned())
		b.Faults().Heal()
		require.True(t, pending.returned())
		require.NoError(t, pending.err)
	})
}

// TestWaitFindsWhatAWatchMissed: a lost notification delays the ballot by a TTL at most.
func TestWaitFindsWhatAWatchMissed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := stand(t, a, "a")
		pending := wait(t.Context(), stand(t, b, "b"))
		require.False(t, pending.returned())
		b.Faults().StallWatches()
		require.NoError(t, first.Withdraw(t.Context()))
		gone := time.Now()
		<-pending.done
		require.NoError(t, pending.err)
		require.LessOrEqual(t, pending.at.Sub(gone), ttl)
	})
}

// TestWaitSaysNothingAboutTheLease: being first is not enough to lead.
func TestWaitSaysNothingAboutTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		first, second := stand(t, a, "a"), stand(t, b, "b")
		b.Faults().Cut()
		require.NoError(t, first.Withdraw(t.Context()))
		time.Sleep(ttl - grace + renewal)
		b.Faults().Heal()
		require.NoError(t, second.Wait(t.Context()))
		require.False(t, holds(second), "its session stands, and was last confirmed too long ago")
		<-second.Lease().Last().Changed
		require.True(t, holds(second))
	})
}

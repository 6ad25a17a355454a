package memory_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestTokensGrow from term to term, however a term ends. The revisions of acknowledgements grow too.
func TestTokensGrow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		service, a, b := pair(t)
		endings := []func(st *memory.Store, ballot store.Ballot){
			func(_ *memory.Store, ballot store.Ballot) { require.NoError(t, ballot.Withdraw(t.Context())) },
			func(st *memory.Store, _ store.Ballot) { st.Faults().Expire() },
			func(*memory.Store, store.Ballot) { service.Clear("x") },
			func(st *memory.Store, _ store.Ballot) {
				st.Faults().Cut()
				time.Sleep(2 * ttl)
				st.Faults().Heal()
			},
			func(*memory.Store, store.Ballot) { service.Clear("x"); service.Clear("x") },
		}
		var token, revision uint64
		for i := range 50 {
			st := []*memory.Store{a, b}[i%2]
			ballot := lead(t, st, "v")
			require.Greater(t, ballot.Token(), token)
			token = ballot.Token()
			require.Greater(t, leader(t, st).Revision, revision)
			revision = leader(t, st).Revision
			endings[i%len(endings)](st, ballot)
			require.Equal(t, token, ballot.Token(), "a ballot's token is one for ever")
			require.Empty(t, standing(t, st))
			require.Zero(t, leader(t, st))
		}
	})
}

// TestTokensFollowTheOrderOfArrival: the ballot that the service received first is first in line.
func TestTokensFollowTheOrderOfArrival(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		a.Faults().Delay(time.Second)
		late := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "sent first") })
		require.False(t, late.returned())
		early := stand(t, b, "arrived first")
		<-late.done
		require.NoError(t, late.err)
		require.Greater(t, late.value.Token(), early.Token())
		require.Equal(t, []string{"arrived first", "sent first"}, standing(t, b))
	})
}

func TestTokensOfManyAtOnceAreApart(t *testing.T) {
	service := memory.NewService()
	var mu sync.Mutex
	var tokens []uint64
	var all sync.WaitGroup
	for range 8 {
		st := open(t, service)
		for range 4 {
			all.Go(func() {
				for range 10 {
					ballot, err := st.Cast(t.Context(), "x", "")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					tokens = append(tokens, ballot.Token())
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	slices.Sort(tokens)
	require.Len(t, slices.Compact(tokens), 8*4*10)
	list, err := open(t, service).Ballots(t.Context(), "x")
	require.NoError(t, err)
	listed := make([]uint64, 0, len(list))
	for _, s := range list {
		listed = append(listed, s.Token)
	}
	require.Equal(t, tokens, listed, "first in line first")
}

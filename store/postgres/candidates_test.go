package postgres_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// Many candidates stand at the same moment: one at a time is first, in the order of their tokens.
func TestCandidatesAtOnce(t *testing.T) {
	t.Parallel()
	for name, stores := range map[string]int{"of 4 stores": 4, "of 40 stores": 40} {
		t.Run(name, func(t *testing.T) {
			list := make([]*postgres.Store, stores)
			for i := range list {
				list[i] = open(t, postgres.Config{TTL: long})
				castFirst(t, list[i], newElection(), "so that there is a session")
			}
			rounds := 20
			if testing.Short() {
				t.Log("5 rounds, and 20 without -short")
				rounds = 5
			}
			for range rounds {
				atOnce(t, list, 40)
			}
		})
	}
}

// atOnce lets candidates of the stores stand at the same moment, and each resign once it has been first.
func atOnce(t *testing.T, stores []*postgres.Store, candidates int) {
	t.Helper()
	election := newElection()
	var (
		first  atomic.Int64 // how many ballots are first
		mu     sync.Mutex
		tokens []uint64 // guarded by mu
		errs   = make(chan error, candidates)
		start  = make(chan struct{})
		ctx    = soon(t)
	)
	stand := func(st *postgres.Store) error {
		<-start
		b, err := storetest.TryCast(ctx, st, election, "own")
		if err != nil {
			return err
		}
		if err := b.Wait(ctx); err != nil {
			return err
		}
		if n := first.Add(1); n != 1 {
			t.Errorf("%d ballots are first at once", n)
		}
		mu.Lock()
		tokens = append(tokens, b.Token())
		mu.Unlock()
		first.Add(-1)
		return withdraw(ctx, b)
	}
	for i := range candidates {
		go func() { errs <- stand(stores[i%len(stores)]) }()
	}
	close(start)
	for range candidates {
		require.NoError(t, receive(t, errs, "the end of a candidate"))
	}
	require.True(t, slices.IsSorted(tokens), "first in this order: %d", tokens)
	require.Len(t, slices.Compact(tokens), candidates)
}

// withdraw withdraws a ballot, and again if the answer did not come.
func withdraw(ctx context.Context, b store.Ballot) error {
	for {
		err := b.Withdraw(ctx)
		if err == nil || ctx.Err() != nil || store.Refused(err) {
			return err
		}
	}
}

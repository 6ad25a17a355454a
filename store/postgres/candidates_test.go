package postgres_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// Many candidates stand at the same moment: one at a time is first, in the order of their tokens.
func TestCandidatesAtOnce(t *testing.T) {
	t.Parallel()
	rounds := 1
	if *every {
		rounds = 20
	}
	schema, _ := newSchema(t)
	list := make([]*postgres.Store, 40)
	for i := range list {
		list[i] = open(t, postgres.Config{Schema: schema})
		castFirst(t, list[i], newElection(), "so that there is a session")
	}
	for range rounds {
		atOnce(t, list, len(list))
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

// Many terms leave little behind, even if the server never vacuums: some hundred bytes a term, and no term takes
// longer.
func TestBloat(t *testing.T) {
	t.Parallel()
	const perTerm = 500 // bytes
	terms := 1_000
	if *every {
		terms = 10_000
	}
	server := sharedWithoutVacuum(t)
	st := open(t, postgres.Config{Addresses: server.Addrs()})
	size := func() int {
		n, err := strconv.Atoi(server.Query(t, `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
			WHERE relnamespace = 'leadership'::regnamespace AND relkind = 'r'`))
		require.NoError(t, err)
		return n
	}
	lead := func(n int) time.Duration {
		began := time.Now()
		for range n {
			b := castFirst(t, st, "a", "own")
			acknowledge(t, b, "own")
			require.NoError(t, withdraw(soon(t), b))
		}
		return time.Since(began) / time.Duration(n)
	}
	tenth := terms / 10
	early := lead(tenth)
	before := size()
	lead(terms - 2*tenth)
	late := lead(tenth)
	after := size()
	t.Logf("%d kB after %d terms and %d kB after %d; %v a term at first and %v at last", before/1000, tenth, after/1000, terms, early, late)
	require.Less(t, after-before, (terms-tenth)*perTerm)
	if *every {
		require.Less(t, late, 10*early, "a busy machine explains less")
	}
}

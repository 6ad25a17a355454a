package consul_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var elections = flag.Int("elections", 150, "in how many elections the process of TestManyElections stands")

// A process stands, waits and follows in many elections, within the connections that a stock agent grants to one
// address. A watch reports each change: the next resync of all keys comes with a renewal, after a quarter of the TTL,
// and no wait below is that long.
func TestManyElections(t *testing.T) {
	t.Parallel()
	n, watchdog := *elections, 3*time.Minute // less than the wait of a query beside many others
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	var conns storetest.Connections
	holder := open(t, consul.Config{Addresses: srv.Addrs(), TTL: time.Hour})
	many := open(t, consul.Config{Addresses: srv.Addrs(), Dial: conns.Dial, TTL: time.Hour})
	type election struct {
		name           string
		leader, waiter store.Ballot
		told           chan store.Leader
	}
	all := make([]*election, n)
	each := func(do func(ctx context.Context, e *election) error) {
		t.Helper()
		ctx := within(t, watchdog)
		var group sync.WaitGroup
		turns := make(chan struct{}, 32)
		for _, e := range all {
			turns <- struct{}{}
			group.Go(func() {
				defer func() { <-turns }()
				assert.NoError(t, do(ctx, e), e.name)
			})
		}
		group.Wait()
		require.False(t, t.Failed())
	}
	for i := range all {
		all[i] = &election{name: fmt.Sprintf("many/%d", i), told: make(chan store.Leader, 8)}
	}
	each(func(ctx context.Context, e *election) (err error) {
		if e.leader, err = storetest.TryCast(ctx, holder, e.name, "leader"); err != nil {
			return err
		}
		e.waiter, err = storetest.TryCast(ctx, many, e.name, "waiter")
		return err
	})
	ended, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	t.Cleanup(func() { stop(); following.Wait() })
	for _, e := range all {
		following.Go(func() {
			prev := store.Leader{}
			for {
				l, err := storetest.Leader(ended, many, e.name, &prev)
				if err != nil {
					return
				}
				e.told <- l
				prev = l
			}
		})
	}
	takesOver := func(ctx context.Context, e *election) error {
		if err := e.waiter.Wait(ctx); err != nil {
			return fmt.Errorf("wait to be first: %w", err)
		}
		leader, err := e.waiter.Acknowledge(ctx, "waiter")
		if err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
		select {
		case told := <-e.told:
			if told != leader {
				return fmt.Errorf("told of %v, not %v", told, leader)
			}
		case <-ctx.Done():
			return errors.New("not told of the new leader")
		}
		return nil
	}
	slowest := time.Duration(0)
	for _, i := range []int{0, 1, n / 2, n - 2, n - 1} {
		e := all[i]
		require.ErrorIs(t, e.waiter.Wait(within(t, time.Millisecond)), context.DeadlineExceeded)
		began := time.Now()
		require.NoError(t, e.leader.Withdraw(soon(t)))
		require.NoError(t, takesOver(within(t, watchdog), e))
		slowest = max(slowest, time.Since(began))
	}
	began := time.Now()
	require.NoError(t, holder.Close()) // all others at once
	each(takesOver)
	t.Logf("one change took at most %v, %d at once %v, with at most %d connections", slowest, n, time.Since(began), conns.Most())
	require.Less(t, conns.Most(), 100) // two such processes stay below what a stock agent grants
	stop()
	following.Wait()
	require.NoError(t, many.Close())
	require.Zero(t, conns.Open())
}

// The number of requests of an idle process does not grow with the number of its elections, but for queries that wait for
// a change, of which there are never more than the limit.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	count := func(n int) (requests, queries int) {
		tp := newTap(t)
		prefix := fmt.Sprintf("idle-%d", n) // a change below the prefix costs requests
		st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked, Prefix: prefix})
		for range n {
			b := castFirst(t, st, newElection(), "own")
			acknowledge(t, b, "own")
		}
		renewals := func() int { return tp.Count("check/update") }
		first, all, waiting := renewals(), tp.Count(), tp.Count("index=")
		eventually(t, func() bool { return renewals() >= first+3 }, "three renewals")
		queries = tp.Count("index=") - waiting
		return tp.Count() - all - queries, queries
	}
	one, oneQuery := count(1)
	many, manyQueries := count(100)
	t.Logf("3 renewals: %d requests and %d queries with one election, %d and %d with 100", one, oneQuery, many, manyQueries)
	require.Less(t, many, one+12)
	require.LessOrEqual(t, manyQueries, oneQuery+agent.Queries)
}

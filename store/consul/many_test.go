package consul_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A process stands in 1,000 elections, waits in them, and follows them, within the connections that a stock agent
// grants to one address. Each change of leader is noticed nevertheless, and soon.
func TestThousandElections(t *testing.T) {
	const n = 1000
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	var conns storetest.Connections
	holder := open(t, consul.Config{Addresses: srv.Addrs()})
	many := open(t, consul.Config{Addresses: srv.Addrs(), Dial: conns.Dial})
	ctx := soon(t)
	type election struct {
		name           string
		leader, waiter store.Ballot
		told           chan store.Leader
	}
	all := make([]*election, n)
	each := func(do func(e *election)) {
		var group sync.WaitGroup
		turns := make(chan struct{}, 32)
		for _, e := range all {
			turns <- struct{}{}
			group.Go(func() { defer func() { <-turns }(); do(e) })
		}
		group.Wait()
	}
	for i := range all {
		all[i] = &election{name: fmt.Sprintf("many/%d", i), told: make(chan store.Leader, 8)}
	}
	each(func(e *election) {
		var err error
		if e.leader, err = holder.Campaign(ctx, e.name, "leader"); err != nil {
			t.Errorf("campaign: %v", err)
			return
		}
		if e.waiter, err = many.Campaign(ctx, e.name, "waiter"); err != nil {
			t.Errorf("campaign: %v", err)
		}
	})
	require.False(t, t.Failed())
	var following sync.WaitGroup
	ended, stop := context.WithCancel(ctx)
	for _, e := range all {
		following.Go(func() {
			prev := store.Leader{}
			for {
				l, err := many.Leader(ended, e.name, &prev)
				if err != nil {
					return
				}
				e.told <- l
				prev = l
			}
		})
	}
	slowest := time.Duration(0)
	for _, i := range []int{0, 1, n / 2, n - 2, n - 1} {
		e := all[i]
		require.ErrorIs(t, e.waiter.Wait(within(t, time.Millisecond)), context.DeadlineExceeded)
		began := time.Now()
		require.NoError(t, e.leader.Withdraw(ctx))
		require.NoError(t, e.waiter.Wait(ctx))
		acknowledge(t, e.waiter, "waiter")
		require.Equal(t, "waiter", receive(t, e.told, "the news").Value)
		slowest = max(slowest, time.Since(began))
	}
	began := time.Now()
	require.NoError(t, holder.Close()) // all others at once
	each(func(e *election) {
		if err := e.waiter.Wait(ctx); err != nil {
			t.Errorf("wait: %v", err)
		}
	})
	t.Logf("one change took at most %v, %d at once %v, with at most %d connections", slowest, n, time.Since(began), conns.Most())
	require.Less(t, slowest, 20*time.Second, "it waited for the end of a poll, which takes minutes")
	require.Less(t, conns.Most(), 128)
	stop()
	following.Wait()
	require.NoError(t, many.Close())
	require.Zero(t, conns.Open())
}

// What a process sends when nothing happens does not grow with the number of its elections.
func TestIdleCost(t *testing.T) {
	count := func(n int) int {
		tp := newTap(t)
		st := open(t, consul.Config{Addresses: tp.addr(), TTL: 4 * time.Second})
		for range n {
			b := castFirst(t, st, newElection(), "own")
			acknowledge(t, b, "own")
		}
		renewals := func() int { return tp.Count("check/update") }
		before, first := tp.Count(), renewals()
		eventually(t, func() bool { return renewals() >= first+4 }, "four renewals")
		return tp.Count() - before
	}
	one, many := count(1), count(100)
	t.Logf("4 renewals: %d requests with one election, %d with 100", one, many)
	require.Less(t, many, one+12)
}

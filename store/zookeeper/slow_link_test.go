package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// A candidate leads and keeps leading at round trips of up to 0.18 TTL, with the default grace. docs/backends.md
// derives the limit.
func TestSlowLink(t *testing.T) {
	for _, percent := range []int{5, 12, 18} {
		t.Run(fmt.Sprintf("round trip of %d%% of the TTL", percent), func(t *testing.T) {
			t.Parallel()
			link := &storetest.Link{}
			link.RoundTrip(long * time.Duration(percent) / 100)
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: link.Dial})
			c := contend(t, st, newElection(), "own")
			term := receive(t, c.Terms, "the term")
			select {
			case <-term.Context().Done():
				t.Fatal("the term is over")
			case <-time.After(2 * long):
			}
		})
	}
}

// A new connection is given as much time for its first answer as any, whenever the last one was due.
func TestReconnectionIsNotCut(t *testing.T) {
	for _, d := range []time.Duration{ttl, 3 * time.Second} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			link := &storetest.Link{}
			var dials atomic.Int32
			tp := newTap(t, func(ctx context.Context, n, address string) (net.Conn, error) {
				dials.Add(1)
				return link.Dial(ctx, n, address)
			})
			link.RoundTrip(d / 12)
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: d, Dial: tp.Dial})
			castFirst(t, st, newElection(), "own")
			for i := range time.Duration(6) {
				confirmedAgain(t, st)
				time.Sleep(i * d / 36) // at any moment between two confirmations
				before := dials.Load()
				tp.breakOff()
				confirmedAgain(t, st)
				require.Equal(t, before+1, dials.Load())
			}
		})
	}
}

// What followers know stays fresh over a slow link while their calls are pending, and again once it is quick: the
// store looks for itself meanwhile, which takes some round trips.
func TestAsOfOverASlowLink(t *testing.T) {
	for _, acknowledged := range []bool{true, false} {
		t.Run(fmt.Sprintf("acknowledged %t", acknowledged), func(t *testing.T) {
			t.Parallel()
			election := newElection()
			leader := castFirst(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "leader")
			if acknowledged {
				acknowledge(t, leader, "leader")
			}
			link := &storetest.Link{}
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: middling, Dial: link.Dial})
			known, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			told := make(chan store.Leader, 3)
			ctx, cancel := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			for range cap(told) {
				calls.Go(func() {
					if l, err := storetest.Leader(ctx, st, election, &known); err == nil {
						told <- l
					}
				})
			}
			defer calls.Wait()
			defer cancel()
			for _, percent := range []time.Duration{0, 18, 2} {
				link.RoundTrip(middling * percent / 100)
				for range 3 {
					start := time.Now()
					storetest.Confirmed(t, st, election)
					if percent != 18 {
						require.Less(t, time.Since(start), long/2)
					}
				}
			}
			record := acknowledge(t, leader, "changed")
			for range cap(told) {
				require.Equal(t, record, receive(t, told, "the change"))
			}
		})
	}
}

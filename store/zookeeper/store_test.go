package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// closeLimit bounds Close. The client library takes up to three seconds if its queue is full and the server does not
// answer.
const closeLimit = 5 * time.Second

// calls are calls of a store's methods that are under way.
type calls struct {
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

func (c *calls) start(call func(ctx context.Context) error) {
	c.running.Go(func() {
		err := call(context.Background())
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, err)
	})
}

// startAll starts calls of every kind, more of them than the client library's queue holds. One ballot is first, the
// other waits behind it.
func (c *calls) startAll(st *zookeeper.Store, election string, first, waiter store.Ballot) {
	for range 30 {
		c.start(func(ctx context.Context) error {
			for { // where the store is connected, until it is closed
				if _, err := st.Cast(ctx, newElection(), "own"); err != nil {
					return err
				}
			}
		})
	}
	c.start(func(ctx context.Context) error {
		_, err := storetest.Leader(ctx, st, election+" without candidates", &store.Leader{})
		return err
	})
	c.start(func(ctx context.Context) error {
		for {
			if _, err := st.Ballots(ctx, election); err != nil {
				return err
			}
		}
	})
	c.start(func(ctx context.Context) error {
		for {
			_, err := first.Acknowledge(ctx, "own")
			if err != nil && !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
				return err
			}
		}
	})
	c.start(waiter.Wait)
}

// Close returns soon whatever state the connection is in, and ends all calls that are under way. It leaves no goroutine
// of the store: all that a case starts have its label.
func TestCloseWithEverythingUnderWay(t *testing.T) {
	t.Parallel()
	server := faultyServer(t)
	network := conformance.NewNetwork()
	member := server.Member(0)
	for _, c := range []struct {
		name                  string
		disconnect, reconnect func() error
	}{
		{"connected", func() error { return nil }, func() error { return nil }},
		{"line cut", func() error { network.Cut(); return nil }, func() error { network.Heal(); return nil }},
		{"replies lost", func() error { network.LoseReplies(); return nil }, func() error { network.Heal(); return nil }},
		{"server paused", member.Pause, member.Resume},
		{"server killed", member.Kill, func() error { return member.Start(soon(t)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			meter := stall.Watch(t)
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(t.Name(), "")))
			st, err := zookeeper.Open(zookeeper.Config{Servers: server.Addrs(), TTL: ttl, Dial: network.Dial})
			require.NoError(t, err)
			election := newElection()
			first, waiter := castFirst(t, st, election, "first"), cast(t, st, election, "waiter")
			require.NoError(t, c.disconnect())
			reconnect := sync.OnceValue(c.reconnect)
			defer reconnect()
			var under calls
			under.startAll(st, election, first, waiter)
			if c.name != "connected" { // through some tries to connect
				eventually(t, func() bool { return first.Lease().Remaining() == 0 }, "the end of the lease")
			}
			start := time.Now()
			require.NoError(t, st.Close())
			require.Less(t, time.Since(start), closeLimit+meter.Stalled(), "%v", meter)
			under.running.Wait()
			pprof.SetGoroutineLabels(context.Background())
			eventually(t, func() bool {
				late, left := time.Since(start) > closeLimit+meter.Stalled(), labelled(t, t.Name())
				require.False(t, late && left != "", "goroutines are left; %v\n%s", meter, left)
				return left == ""
			}, "the goroutines end")
			for _, err := range under.errs {
				if !errors.Is(err, store.ErrLost) {
					require.ErrorIs(t, err, store.ErrClosed)
				}
			}
			require.NoError(t, st.Close(), "again")
			_, err = st.Cast(soon(t), election, "own")
			require.ErrorIs(t, err, store.ErrClosed)
			lost(t, first)
			lost(t, waiter)
			require.Zero(t, first.Lease().Remaining())
			require.NoError(t, reconnect())
		})
	}
}

// labelled returns the stacks of the goroutines with a label.
func labelled(t *testing.T, label string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
	stacks := strings.Split(all.String(), "\n\n")
	return strings.Join(slices.DeleteFunc(stacks, func(s string) bool { return !strings.Contains(s, label) }), "\n\n")
}

// Close of a connected store ends the session at once: no candidate waits for the TTL.
func TestCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, zookeeper.Config{})
	first := castFirst(t, st, election, "first")
	acknowledge(t, first, "first")
	second := cast(t, open(t, zookeeper.Config{}), election, "second")
	start := time.Now()
	require.NoError(t, st.Close())
	require.NoError(t, second.Wait(soon(t)))
	require.Less(t, time.Since(start), long/2)
	acknowledge(t, second, "second")
}

// Many elections share one session and its confirmations, and all survive a broken connection.
func TestManyElections(t *testing.T) {
	t.Parallel()
	const elections = 300
	prefix := newElection()
	st, tp := openTapped(t)
	ballots := make([]store.Ballot, elections)
	errs := make([]error, elections)
	var casting sync.WaitGroup
	for i := range elections {
		casting.Go(func() {
			ballots[i], errs[i] = st.Cast(soon(t), fmt.Sprint(prefix, "/", i), "own")
		})
	}
	casting.Wait()
	for i, b := range ballots {
		require.NoError(t, errs[i])
		require.NoError(t, b.Wait(soon(t)))
	}
	confirmedAgain(t, st)
	before := tp.Count(opMulti, theRoot)
	confirmedAgain(t, st)
	confirmedAgain(t, st)
	require.Less(t, tp.Count(opMulti, theRoot)-before, elections/10, "all are confirmed together")

	tp.breakOff()
	confirmedAgain(t, st)
	conn := operator(t)
	lastElection := fmt.Sprint(prefix, "/", elections-1)
	for _, b := range ballots {
		require.NoError(t, b.Err())
	}
	require.NoError(t, conn.Delete(find(t, conn, lastElection, "own"), -1))
	lost(t, ballots[elections-1])
	next := castFirst(t, open(t, zookeeper.Config{}), lastElection, "next")
	require.Greater(t, next.Token(), ballots[elections-1].Token())
}

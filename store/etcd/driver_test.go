package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second // in which a busy machine renews many sessions
	config := Config{Endpoints: sharedServer(t).Addrs(), TTL: ttl}
	drivertest.Run(t, drivertest.Harness{
		Open: func(context.Context) (engine.Driver, error) { return begin(config) },
		OpenSlow: func(_ context.Context, delay time.Duration) (engine.Driver, error) {
			network, slow := conformance.NewNetwork(), config
			network.DelayReplies(delay)
			slow.Dial = network.Dial
			return begin(slow)
		},
		TTL: ttl,
	})
}

// The entry ahead is the ballot that was created last before it, and First is the one that was created first. Keys that are no
// ballots do not count, and cost one request more.
func TestPlace(t *testing.T) {
	t.Parallel()
	reads, turn := 0, uint64(0)
	d, s := opened(t, each(func(_ string, _ any, send func() error) error { reads++; return send() }))
	first := func(e engine.Entry, requests int) {
		t.Helper()
		want := engine.State{}
		if e.Token != 0 {
			_, nonce, _ := strings.Cut(keyOf(e.Key), s.ID()+"-")
			want = engine.State{Token: e.Token, Session: s.ID(), Nonce: nonce}
		}
		reads = 0
		got, err := d.First(soon(t), "x")
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, requests, reads)
	}
	enter := func() engine.Entry {
		t.Helper()
		turn++
		e := enter(t, s, "x", engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn})
		place, err := d.Ahead(soon(t), e)
		require.NoError(t, err)
		require.Equal(t, e.Place, place, "Ahead says the same")
		again := enter(t, s, "x", engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn})
		require.Equal(t, e, again, "and so does entering again")
		return e
	}
	remove := func(e engine.Entry) { require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: e})) }
	put := func(name string, lease int64) {
		write(t, d, clientv3.OpPut(d.layout.dir("x")+name, "foreign", clientv3.WithLease(clientv3.LeaseID(lease))))
	}
	first(engine.Entry{}, 1)
	one := enter()
	require.Zero(t, one.Place)
	first(one, 1)
	two := enter()
	require.Equal(t, engine.Place{Nearest: one.Key}, two.Place)
	put("foreign", 0)
	put("foreign2", s.id)
	three := enter()
	require.Equal(t, engine.Place{Nearest: two.Key, More: true}, three.Place)
	remove(one)
	first(two, 1)
	remove(two)
	first(three, 2)
	place, err := d.Ahead(soon(t), three)
	require.NoError(t, err)
	require.Zero(t, place)
	_, err = d.Ahead(soon(t), two)
	require.ErrorIs(t, err, engine.ErrGone)
	_, err = s.Acknowledge(soon(t), two, "v")
	require.ErrorIs(t, err, engine.ErrGone)
	remove(three)
	first(engine.Entry{}, 2)
}

// The entry ahead is read from one member. If that lags behind what was seen, or is of another cluster, or does not have the
// entry, all are asked. One member is no proof of a restored cluster.
func TestPlaceIsReadFromOneMemberFirst(t *testing.T) {
	t.Parallel()
	var alone []bool // of each read
	d, s := opened(t, each(func(_ string, req any, send func() error) error {
		if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Success) == 1 && txn.Success[0].GetRequestRange() != nil {
			alone = append(alone, txn.Success[0].GetRequestRange().Serializable)
		}
		return send()
	}))
	e := enter(t, s, "x", engine.Nonce{Name: "n", Turn: 1})
	asks := func(want error, reads ...bool) {
		t.Helper()
		alone = nil
		_, err := d.Ahead(soon(t), e)
		require.ErrorIs(t, err, want)
		require.Equal(t, reads, alone)
	}
	asks(nil, true)
	d.revisions.cluster++
	asks(nil, true, false)
	asks(nil, true)
	history := d.history()
	d.raise(d.known().floor + 1_000_000) // as if another member had reported it
	_, _, err := d.read(soon(t), nil, d.nearest("x", clientv3.WithSerializable()))
	require.ErrorIs(t, err, errBehind)
	require.NoError(t, history.Err())
	asks(nil, true, false)
	require.ErrorIs(t, context.Cause(history), errRestored)
	e.Token++ // it does not stand
	asks(engine.ErrGone, true, false)
}

// inMany casts a ballot in each of n elections and follows each.
func inMany(t *testing.T, st *Store, n int) {
	t.Helper()
	prefix := newElection()
	ctx, cancel := context.WithCancel(context.Background())
	var followers sync.WaitGroup
	t.Cleanup(func() { cancel(); followers.Wait() })
	for i := range n {
		election := fmt.Sprintf("%s/%d", prefix, i)
		b := castFirst(t, st, election, "own")
		leader := acknowledge(t, b, "own")
		followers.Go(func() { _, _ = storetest.Leader(ctx, st, election, &leader) })
	}
	eventually(t, func() bool { return st.watches() == 2*n }, "all watch")
}

func TestOneLeaseAndOneStream(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	st := open(t, Config{Client: tp.client, TTL: 10 * long}) // what is asked again when an answer is late would count
	inMany(t, st, 200)
	require.Equal(t, 1, tp.Count("LeaseGrant"))
	require.Equal(t, 1, tp.opened("LeaseKeepAlive"))
	require.Equal(t, 1, tp.opened("Watch"))
	eventually(t, func() bool { // an election that is read again gets another watch, and the one before is cancelled
		return tp.Count("create_request")-tp.Count("cancel_request") == 400
	}, "a watch for each ballot and each follower")
	require.Zero(t, tp.Count("start_revision"), "a watch of the past is told late, in a loop that runs every 100 ms")
	require.Equal(t, 400, tp.Count("Txn", "request_put"), "one to enter and one to acknowledge")
}

// Entering takes one round trip once there is a lease, and another the first time in an election (peers.go). Acknowledging
// takes one. A candidate that had one ballot ahead
// leads without a round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	const ttl = 10 * long // what is asked again when an answer is late would count
	meter := stall.Watch(t)
	tp, other := newTap(t), open(t, Config{TTL: ttl})
	st := open(t, Config{Client: tp.client, TTL: ttl})
	castFirst(t, st, newElection(), "so that there is a lease")
	watches := func(n int) {
		t.Helper()
		eventually(t, func() bool { return st.watches() == n }, "%d watches", n)
	}
	watches(1)
	takesOver := func() (requests int) {
		election := newElection()
		first := castFirst(t, other, election, "first")
		looks := func() int { // but for those of the audit, and for a twin
			return tp.Count(readTxn, election) - tp.Count(readTxn, election+`/_ballots/" range_end`) - tp.Count(readTxn, `"/leadership/`+election)
		}
		writes := tp.Count("Txn compare")
		look := tp.catch(t, readTxn, election+"/_ballots/")
		b := cast(t, st, election, "own")
		require.Equal(t, writes+1, tp.Count("Txn compare"))
		receive(t, look.caught, "it looks without making its caller wait")
		look.letGo()
		eventually(t, func() bool { return st.told() == 3 }, "both looks are answered")
		waiting(t, b)
		require.Equal(t, 2, looks(), "at the nearest, and at its own")
		require.NoError(t, first.Withdraw(soon(t)))
		require.NoError(t, b.Wait(soon(t)))
		requests = looks() - 2
		acknowledge(t, b, "own")
		require.Equal(t, writes+2, tp.Count("Txn compare"))
		require.NoError(t, b.Withdraw(soon(t)))
		watches(1)
		return requests
	}
	for range 2 { // if this process stood still, the engine might not have noted an answer before the first withdrew
		before := meter.Stalled()
		requests := takesOver()
		if requests == 0 || meter.Stalled() == before {
			require.Zero(t, requests, "%v", meter)
			return
		}
	}
	require.Zero(t, takesOver(), "%v", meter)
}

// The read of a key that is to be watched fails. The watch is taken back: the engine sets another one each time.
func TestWatchWithoutAReadIsTakenBack(t *testing.T) {
	t.Parallel()
	fails := false
	d, _ := opened(t, each(func(_ string, _ any, send func() error) error {
		if fails {
			return errUnavailable
		}
		return send()
	}))
	fails = true
	for range 3 {
		_, err := d.WatchLeader(soon(t), "x", func(engine.News) {})
		require.Error(t, err)
	}
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	require.Empty(t, d.watches.byID)
	require.Empty(t, d.watches.creating)
}

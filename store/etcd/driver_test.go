package etcd

import (
	"context"
	"errors"
	"fmt"
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

// A watch of an entry tells its state, whether it is asked to resign, and when its key is no ballot any more.
func TestWatchOfAnEntry(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	entry := enter(t, s, "x", engine.Nonce{Name: "n", Turn: 1})
	told := make(chan engine.State, 100)
	_, err := d.WatchEntry(soon(t), entry.Key, func(n engine.News) {
		if n.State != nil {
			told <- *n.State
		}
	})
	require.NoError(t, err)
	want := engine.State{Token: entry.Token, Session: s.ID(), Nonce: "n"}
	require.Equal(t, want, receive(t, told, "the state"))
	require.NoError(t, d.RequestResignation(soon(t), "x", entry.Token))
	want.Resign = true
	require.Equal(t, want, receive(t, told, "the request"))
	write(t, d, clientv3.OpPut(keyOf(entry.Key), "without a lease"))
	require.Zero(t, receive(t, told, "the end"))
}

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

// The entry ahead is the ballot that was created last before it. Keys that are no ballots do not count.
func TestPlace(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	put := func(name string, lease int64) {
		t.Helper()
		write(t, d, clientv3.OpPut(d.layout.dir("x")+name, "foreign", clientv3.WithLease(clientv3.LeaseID(lease))))
	}
	turn := uint64(0)
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
	first := enter()
	require.Zero(t, first.Place)
	second := enter()
	require.Equal(t, engine.Place{Nearest: first.Key}, second.Place)
	third := enter()
	require.Equal(t, engine.Place{Nearest: second.Key, More: true}, third.Place)
	require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: third}))
	put("foreign", 0)
	put("foreign2", s.id)
	third = enter()
	require.Equal(t, engine.Place{Nearest: second.Key, More: true}, third.Place)
	require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: first}))
	require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: second}))
	place, err := d.Ahead(soon(t), third)
	require.NoError(t, err)
	require.Zero(t, place)
	_, err = d.Ahead(soon(t), second)
	require.ErrorIs(t, err, engine.ErrGone)
	_, err = s.Acknowledge(soon(t), second, "v")
	require.ErrorIs(t, err, engine.ErrGone)
}

// The first of the queue is read by one request, and by one more if keys that are no ballots are ahead of it.
func TestFirst(t *testing.T) {
	t.Parallel()
	var reads int
	d, s := opened(t, each(func(method string, req any, send func() error) error {
		reads++
		return send()
	}))
	reads = 0
	state := func(want engine.State, requests int) {
		t.Helper()
		got, err := d.First(soon(t), "x")
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, requests, reads)
		reads = 0
	}
	state(engine.State{}, 1)
	e := enter(t, s, "x", engine.Nonce{Name: "n", Turn: 1})
	reads = 0
	want := engine.State{Token: e.Token, Session: s.ID(), Nonce: "n"}
	state(want, 1)
	require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: e}))
	for _, name := range []string{"a", "b", "c"} {
		write(t, d, clientv3.OpPut(d.layout.dir("x")+name, "foreign"))
	}
	reads = 0
	state(engine.State{}, 2)
	e = enter(t, s, "x", engine.Nonce{Name: "n", Turn: 1})
	reads, want.Token = 0, e.Token
	state(want, 2)
	state(want, 2)
}

// The entry ahead is read from one member. If that member lags behind what was seen, all are asked.
func TestPlaceIsReadFromOneMemberFirst(t *testing.T) {
	t.Parallel()
	var alone []bool // of each read
	d, s := opened(t, each(func(method string, req any, send func() error) error {
		if txn, ok := req.(*pb.TxnRequest); ok && txn.Success[0].GetRequestRange() != nil && len(txn.Success) == 1 {
			alone = append(alone, txn.Success[0].GetRequestRange().Serializable)
		}
		return send()
	}))
	e := enter(t, s, "x", engine.Nonce{Name: "n", Turn: 1})
	place, err := d.Ahead(soon(t), e)
	require.NoError(t, err)
	require.Zero(t, place)
	require.Equal(t, []bool{true}, alone)

	history := d.history()
	d.raise(d.known().floor + 1_000_000) // as if another member had reported it
	_, _, err = d.read(soon(t), nil, nearest("/", clientv3.WithSerializable()))
	require.ErrorIs(t, err, errBehind)
	require.NoError(t, history.Err(), "one member is no proof of a restored cluster")
	_, err = d.Ahead(soon(t), e)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, false}, alone)
	require.ErrorIs(t, context.Cause(history), errRestored, "all are")

	d.revisions = revisions{cluster: d.revisions.cluster + 1}
	_, _, err = d.read(soon(t), nil, nearest("/", clientv3.WithSerializable()))
	require.ErrorIs(t, err, errBehind, "it is a member of another cluster")

	alone, d.revisions = nil, revisions{}
	e.Token++ // it does not stand, according to one member
	_, err = d.Ahead(soon(t), e)
	require.ErrorIs(t, err, engine.ErrGone)
	require.Equal(t, []bool{true, false}, alone)
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
	var b between
	d, _ := opened(t, b.intercept)
	fail := func(*pb.TxnRequest) error { return errors.New("no answer") }
	b.before.Store(&fail)
	for range 3 {
		_, err := d.WatchLeader(soon(t), "x", func(engine.News) {})
		require.Error(t, err)
	}
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	require.Empty(t, d.watches.byID)
	require.Empty(t, d.watches.creating)
}

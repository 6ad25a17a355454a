package etcd

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// opened returns a driver on a server of its own, and a session. Requests go through the interceptors.
func opened(t *testing.T, interceptors ...grpc.UnaryClientInterceptor) (*driver, *session) {
	t.Helper()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: []string{"--unsafe-no-fsync"}})
	client, err := clientv3.New(clientv3.Config{
		Endpoints: server.Addrs(), Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(interceptors...)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	d, err := newDriver(Config{Client: client, TTL: 60 * time.Second})
	require.NoError(t, err)
	d.begin()
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, proof, err := d.Open(soon(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, proof.Connection)
	return d, s.(*session)
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// marks returns the revisions of the marks of the session, by slot.
func (s *session) marks(t *testing.T) map[string]int64 {
	t.Helper()
	prefix := "leadership/_void/" + s.ID() + "-"
	found, _, err := s.driver.read(soon(t), nil, clientv3.OpGet(prefix, clientv3.WithPrefix()))
	require.NoError(t, err)
	list := map[string]int64{}
	for _, kv := range found[0].Kvs {
		list[string(kv.Key[len(prefix):])] = kv.ModRevision
	}
	return list
}

// asOfNow is a session with the requests that this one would send now, which arrive late.
func (s *session) asOfNow() *session {
	return &session{driver: s.driver, id: s.id, voided: s.voided}
}

// Once a turn of a slot is void, no late request creates an entry of this turn or an earlier one, also if requests to
// void arrive late. The next turn stands, at the latest once it was void itself.
func TestVoid(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	nonce := func(turn uint64) engine.Nonce {
		return engine.Nonce{Name: fmt.Sprintf("nonce%d", turn), Slot: 3, Turn: turn}
	}
	enters := func(turn uint64) {
		t.Helper()
		_, err := s.Enter(soon(t), "x", nonce(turn), "v")
		require.NoError(t, err)
	}
	isVoid := func(s *session, turn uint64) {
		t.Helper()
		_, err := s.Enter(soon(t), "x", nonce(turn), "v")
		require.ErrorIs(t, err, engine.ErrGone)
	}
	standing := func() int {
		t.Helper()
		list, err := d.Ballots(soon(t), "x")
		require.NoError(t, err)
		return len(list)
	}
	first := s.asOfNow()
	enters(1)
	require.Empty(t, s.marks(t), "a mark costs nothing before it is needed")
	require.NoError(t, s.Void(soon(t), "x", nonce(1)))
	require.Zero(t, standing())
	isVoid(first, 1)
	second := s.asOfNow()
	enters(2)
	enters(2)
	require.Equal(t, 1, standing())
	require.NoError(t, s.Void(soon(t), "x", nonce(2)))
	require.Zero(t, standing())
	isVoid(first, 1)
	isVoid(second, 2)

	require.NoError(t, first.Void(soon(t), "x", nonce(1))) // late
	require.Len(t, s.marks(t), 1)
	isVoid(second, 2)
	isVoid(s, 3)
	third := s.asOfNow()
	require.NoError(t, s.Void(soon(t), "x", nonce(3)))
	isVoid(third, 3)
	enters(4)
	require.Equal(t, 1, standing())

	// An operator deletes everything below the prefix.
	fifth := s.asOfNow()
	require.NoError(t, d.Clear(soon(t), ""))
	isVoid(s, 5)
	require.NoError(t, s.Void(soon(t), "x", nonce(5)))
	isVoid(fifth, 5)
	enters(6)
	require.Equal(t, 1, standing())

	for slot := range engine.Slots {
		for turn := range uint64(3) {
			n := engine.Nonce{Name: fmt.Sprint("slot", slot, turn), Slot: slot, Turn: turn + 20}
			require.NoError(t, s.Void(soon(t), strconv.Itoa(slot), n))
		}
	}
	marks := s.marks(t)
	require.Len(t, marks, engine.Slots)
	for slot, revision := range s.voided {
		require.Equal(t, marks[strconv.Itoa(slot)], revision)
	}
	require.NoError(t, s.End(soon(t), nil))
	require.Empty(t, s.marks(t), "they go with the lease")
	require.ErrorIs(t, s.Void(soon(t), "x", nonce(30)), engine.ErrOver)
	_, err := (&session{driver: d, id: s.id}).Enter(soon(t), "x", nonce(30), "v")
	require.ErrorIs(t, err, engine.ErrOver)
}

// The entry ahead is the ballot that was created last before it. Keys that are no ballots do not count.
func TestPlace(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	put := func(name string, lease int64) {
		t.Helper()
		_, err := d.change(soon(t), nil, clientv3.OpPut(d.layout.dir("x")+name, "foreign", clientv3.WithLease(clientv3.LeaseID(lease))))
		require.NoError(t, err)
	}
	turn := uint64(0)
	enter := func() engine.Entry {
		t.Helper()
		turn++
		e, err := s.Enter(soon(t), "x", engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn}, "v")
		require.NoError(t, err)
		place, err := d.Ahead(soon(t), e)
		require.NoError(t, err)
		require.Equal(t, e.Place, place, "Ahead says the same")
		again, err := s.Enter(soon(t), "x", engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn}, "v")
		require.NoError(t, err)
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
	d, s := opened(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		reads++
		return invoke(ctx, method, req, reply, cc, opts...)
	})
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
	e, err := s.Enter(soon(t), "x", engine.Nonce{Name: "n", Turn: 1}, "v")
	require.NoError(t, err)
	reads = 0
	want := engine.State{Token: e.Token, Session: s.ID(), Nonce: "n"}
	state(want, 1)
	require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: e}))
	for _, name := range []string{"a", "b", "c"} {
		_, err := d.change(soon(t), nil, clientv3.OpPut(d.layout.dir("x")+name, "foreign"))
		require.NoError(t, err)
	}
	reads = 0
	state(engine.State{}, 2)
	e, err = s.Enter(soon(t), "x", engine.Nonce{Name: "n", Turn: 1}, "v")
	require.NoError(t, err)
	reads, want.Token = 0, e.Token
	state(want, 2)
	state(want, 2)
}

// The entry ahead is read from one member. If that member lags behind what was seen, all are asked.
func TestPlaceIsReadFromOneMemberFirst(t *testing.T) {
	t.Parallel()
	var alone []bool // of each read
	d, s := opened(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if txn, ok := req.(*pb.TxnRequest); ok && txn.Success[0].GetRequestRange() != nil && len(txn.Success) == 1 {
			alone = append(alone, txn.Success[0].GetRequestRange().Serializable)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	e, err := s.Enter(soon(t), "x", engine.Nonce{Name: "n", Turn: 1}, "v")
	require.NoError(t, err)
	place, err := d.Ahead(soon(t), e)
	require.NoError(t, err)
	require.Zero(t, place)
	require.Equal(t, []bool{true}, alone)

	d.raise(d.known().floor + 1) // as if another member had reported it
	_, _, err = d.read(soon(t), nil, nearest("/", clientv3.WithSerializable()))
	require.ErrorIs(t, err, errBehind)
	require.Zero(t, d.revisions.backSince, "one member is no proof of a restored cluster")
	_, err = d.Ahead(soon(t), e)
	require.ErrorIs(t, err, errBehind)
	require.Equal(t, []bool{true, true, true, false}, alone)

	d.revisions = revisions{cluster: d.revisions.cluster + 1}
	_, _, err = d.read(soon(t), nil, nearest("/", clientv3.WithSerializable()))
	require.ErrorIs(t, err, errBehind, "it is a member of another cluster")

	alone, d.revisions = nil, revisions{}
	e.Token++ // it does not stand, according to one member
	_, err = d.Ahead(soon(t), e)
	require.ErrorIs(t, err, engine.ErrGone)
	require.Equal(t, []bool{true, false}, alone)
}

// If the outcome of an earlier request is unknown and the request was carried out, an entry might stand: the engine
// voids it.
func TestEntryOfAnEarlierRequestMayStand(t *testing.T) {
	t.Parallel()
	behind := func() {}
	d, s := opened(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Success) == 2 {
			behind()
		}
		return err
	})
	n := engine.Nonce{Name: "n", Turn: 1}
	_, err := s.Enter(soon(t), "x", n, "v")
	require.NoError(t, err)
	behind = func() { d.raise(d.known().floor + 1000) } // the member that is asked next lags behind another one
	_, err = s.Enter(soon(t), "x", n, "v")
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
}

// A leader that acknowledges again sends three requests: the first is refused, since the key is held, the second reads who
// holds the key, and the third replaces the value.
func TestCostOfAcknowledgingAgain(t *testing.T) {
	t.Parallel()
	var b between
	_, s := opened(t, b.intercept)
	e, err := s.Enter(soon(t), "x", engine.Nonce{Name: "n", Turn: 1}, "v")
	require.NoError(t, err)
	first, err := s.Acknowledge(soon(t), e, "first")
	require.NoError(t, err)
	requests := 0
	count := func(*pb.TxnRequest) error { requests++; return nil }
	b.before.Store(&count)
	second, err := s.Acknowledge(soon(t), e, "second")
	require.NoError(t, err)
	require.Greater(t, second, first)
	require.Equal(t, 3, requests)
}

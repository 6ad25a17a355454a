package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// An answer in which parts are missing says nothing: it might come from a gateway.
func TestAnswerInParts(t *testing.T) {
	t.Parallel()
	leaveOut := func(*pb.TxnResponse) {}
	d, _ := opened(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if r, ok := reply.(*pb.TxnResponse); ok {
			leaveOut(r)
		}
		return err
	})
	for name, part := range map[string]func(*pb.TxnResponse){
		"the header":           func(r *pb.TxnResponse) { r.Header = nil },
		"all results":          func(r *pb.TxnResponse) { r.Responses = nil },
		"one of the responses": func(r *pb.TxnResponse) { r.Responses = r.Responses[1:] },
	} {
		leaveOut = part
		_, err := d.Ballots(soon(t), "x")
		require.ErrorIs(t, err, store.ErrUnknownOutcome, name)
	}
}

// restart stops a server, does something to its data, and starts it again.
func restart(t *testing.T, m *testserver.Member, change func() error) {
	t.Helper()
	require.NoError(t, m.Stop())
	require.NoError(t, change())
	require.NoError(t, m.Start(soon(t)))
}

// advance raises the cluster's revision by n.
func advance(t *testing.T, client *clientv3.Client, n int) {
	t.Helper()
	for range n {
		_, err := client.Put(soon(t), "something else", "")
		require.NoError(t, err)
	}
}

// The server is restored from a copy of its data. The leader's term ends, followers are told the restored state, and the log
// says why. What candidates do: TestRestored of store/all.
func TestRestored(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast})
	client := operator(t, server.Addrs()...)
	var log logged
	config := Config{Endpoints: server.Addrs(), TTL: middling, Logger: log.logger()}
	put := func(value string) {
		_, err := client.Put(soon(t), ackKey("other"), value)
		require.NoError(t, err)
	}
	put("early")
	restart(t, server.Member(0), server.Member(0).SaveData)
	advance(t, client, 100)
	put("late")
	b := castFirst(t, open(t, config), "election", "leader")
	acknowledge(t, b, "leader")
	follower := open(t, config)
	late, err := storetest.Leader(soon(t), follower, "other", nil)
	require.NoError(t, err)
	require.Equal(t, "late", late.Value)
	told := make(chan store.Leader, 1)
	go func() {
		leader, _ := storetest.Leader(soon(t), follower, "other", &late)
		told <- leader
	}()
	restart(t, server.Member(0), server.Member(0).RestoreData)
	lost(t, b)
	require.Equal(t, "early", receive(t, told, "the restored state").Value)
	confirmed(t, follower, "election") // what the follower knows
	eventually(t, func() bool { return log.has("gone back") }, "the log tells")
	require.Less(t, log.count(), 60)
}

// A leader's lease is in the copy that a cluster is restored from, and its ballot was cast after the copy. Its renewals are
// answered, and prove nothing: a rival leads with what is in the copy.
func TestRenewalOfARestoredLease(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast})
	client := operator(t, server.Addrs()...)
	st := open(t, Config{Endpoints: server.Addrs(), TTL: long})
	castFirst(t, st, newElection(), "so that its session is in the copy")
	restart(t, server.Member(0), server.Member(0).SaveData)
	b := castFirst(t, st, newElection(), "leader")
	advance(t, client, 100)
	confirmedAgain(t, st)
	var stopped time.Time
	restart(t, server.Member(0), func() error {
		stopped = time.Now()
		return server.Member(0).RestoreData()
	})
	lost(t, b)
	require.ErrorContains(t, b.Err(), errRestored.Error())
	require.True(t, b.Lease().Last().Sent.Before(stopped), "a renewal after the restore has counted")
}

// A role that may write an election and only read what else is below the prefix learns that the cluster has gone back. Void
// needs more, and says what.
func TestRestoreIsNoticedByAReader(t *testing.T) {
	t.Parallel()
	server, election, name := sharedGuarded(t), newElection(), newElection()
	client := root(t, server)
	addReader(t, client, name)
	_, err := client.RoleGrantPermission(soon(t), name, ackKey(election), clientv3.GetPrefixRangeEnd(ackKey(election)),
		clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	d := begun(t, Config{Endpoints: server.Addrs(), User: name, Password: secret, TTL: long})
	opened, _, err := d.Open(soon(t))
	require.NoError(t, err)
	s := opened.(*session)
	err = s.Void(soon(t), election, engine.Nonce{Name: "n"})
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, ` and "leadership/_void/`)
	_, err = d.now(soon(t))
	require.NoError(t, err)
	require.NoError(t, s.history.Err())
	d.raise(1 << 40)
	_, err = d.now(soon(t))
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(s.history), errRestored)
}

// A gateway that leaves the cluster's id out is no other cluster.
func TestAnswerWithoutTheClustersID(t *testing.T) {
	d := watching()
	for _, id := range []uint64{7, 0, 7} {
		d.saw(0, &pb.ResponseHeader{ClusterId: id, Revision: 10})
	}
	require.EqualValues(t, 7, d.revisions.cluster)
}

// Before a watch reports anything, also that it is set, it raises the floor of the reads: no later read returns an
// older state.
func TestFloorIsRaisedBeforeAWatchTells(t *testing.T) {
	d := watching()
	var floor int64
	l := &watch{key: "a", state: leaderState, tell: func(engine.News) { floor = d.known().floor }}
	d.watches.set(l)
	d.confirms(t, 1, 10)
	require.EqualValues(t, 10, d.known().floor)
	require.NoError(t, d.shows(l, "a", 10))
	d.changes(t, 1, "a", 12)
	require.EqualValues(t, 12, floor)
	d.changes(t, 1, "a", 11)
	require.EqualValues(t, 12, d.known().floor)
}

// An answer with a lower revision than one seen before the request proves that the cluster was restored. The store notices a
// restore once. An answer without a revision proves nothing.
func TestRestoreIsNoticedOnce(t *testing.T) {
	d := watching()
	history := d.history()
	sees := func(floor, revision, want int64, restored bool) {
		t.Helper()
		d.saw(floor, &pb.ResponseHeader{Revision: revision})
		require.Equal(t, want, d.known().floor)
		require.Equal(t, restored, history.Err() != nil)
	}
	sees(0, 100, 100, false)
	sees(90, 95, 100, false) // it was sent before 100 was seen
	sees(100, 0, 100, false)
	d.raise(60) // a watch's member lags behind
	sees(100, 50, 50, true)
	require.ErrorIs(t, context.Cause(history), errRestored)
	history = d.history()
	sees(100, 49, 50, false) // it was sent before the restore was noticed
	sees(50, 51, 51, false)
	sees(51, 40, 40, true)
	d.life.Stop()
	d.life.Wait()
}

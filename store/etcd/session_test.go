package etcd

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An operator revokes the leader's lease: the leader notices at once, its successor leads, and the leader's next
// ballot is on another lease.
func TestLeaseRevoked(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election, elsewhere := newElection(), newElection()
	st := open(t, Config{})
	first := contend(t, st, election, "first")
	term := receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, Config{}), election, "second")
	eventually(t, func() bool { return len(values(t, st, election)) == 2 }, "both stand")
	other := castFirst(t, st, elsewhere, "other")
	_, lease := ballotOf(t, client, election, "first")
	_, err := client.Revoke(soon(t), lease)
	require.NoError(t, err)
	receive(t, term.Context().Done(), "the end of the term")
	receive(t, second.Terms, "the second leads")
	lost(t, other)
	eventually(t, func() bool { return len(values(t, st, election)) == 2 }, "the first stands again")
	_, next := ballotOf(t, client, election, "first")
	require.NotEqual(t, lease, next)
	second.End()
	require.Greater(t, receive(t, first.Terms, "the first leads again").Token(), term.Token())
}

// The time for connecting counts neither against the request for the first lease nor against the lease. One lease is
// requested, over a link on which connecting takes two thirds of the time allowed for an answer.
func TestFirstLeaseWaitsForTheConnection(t *testing.T) {
	t.Parallel()
	const ttl = 24 * time.Second // an answer may be late by a sixth of that, less the round trip
	var link storetest.Link
	link.RoundTrip(ttl / 10)
	var requests atomic.Int64
	count := each(func(method string, req any, send func() error) error {
		if strings.Contains(method, "/Lease") {
			requests.Add(1)
		}
		return send()
	})
	client := connect(t, clientv3.Config{
		Endpoints: sharedServer(t).Addrs()[:1],
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return link.Dial(ctx, "tcp", address) }),
			grpc.WithChainUnaryInterceptor(count),
		},
	})
	b, err := open(t, Config{Client: client, TTL: ttl}).Cast(soon(t), newElection(), "own")
	require.NoError(t, err)
	require.EqualValues(t, 1, requests.Load())
	require.NoError(t, b.Withdraw(soon(t)))
}

// If the context of a call ends before the answer comes, the error says that the request might have been carried out.
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	election := newElection()
	tp := newTap(t)
	st := open(t, Config{Client: tp.client})
	b := castFirst(t, st, election, "own")
	endsEarly := func(kind string, call func(ctx context.Context) error) {
		reply := tp.catch(t, "Txn", kind, election)
		ctx, cancel := context.WithCancel(soon(t))
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		receive(t, reply.caught, "the reply")
		cancel()
		err := receive(t, ended, "the end of the call")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.Canceled)
	}
	endsEarly("request_put", func(ctx context.Context) error { _, err := b.Acknowledge(ctx, "own"); return err })
	endsEarly("request_delete_range", b.Withdraw)
	require.Empty(t, values(t, st, election))
}

// End asks again if the request to revoke the lease might not have come to the cluster: the next leader need not wait for
// the lease to end by itself.
func TestEndAsksAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	_, s := opened(t, each(func(method string, req any, send func() error) error {
		if strings.HasSuffix(method, "/LeaseRevoke") && asked.Add(1) == 1 {
			return status.Error(codes.Unavailable, "the request is lost")
		}
		return send()
	}))
	require.NoError(t, s.End(soon(t), nil))
	require.EqualValues(t, 2, asked.Load())
	require.ErrorIs(t, s.Void(soon(t), "x", engine.Nonce{Name: "n", Turn: 1}), engine.ErrOver)
}

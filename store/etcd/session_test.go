package etcd

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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

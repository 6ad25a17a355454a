package etcd_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// The time for connecting counts neither against the request for the first lease nor against the lease. One lease is
// requested, over a link on which connecting takes two thirds of the time allowed for an answer.
func TestFirstLeaseWaitsForTheConnection(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	var link storetest.Link
	link.RoundTrip(ttl / 10)
	var requests atomic.Int64
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if strings.Contains(method, "/Lease") {
			requests.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	client := connect(t, clientv3.Config{
		Endpoints: sharedServer(t).Addrs()[:1],
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return link.Dial(ctx, "tcp", address) }),
			grpc.WithChainUnaryInterceptor(count),
		},
	})
	b, err := open(t, etcd.Config{Client: client, TTL: ttl}).Cast(soon(t), newElection(), "own")
	require.NoError(t, err)
	require.EqualValues(t, 1, requests.Load())
	require.NoError(t, b.Withdraw(soon(t)))
}

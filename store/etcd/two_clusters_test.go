package etcd

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// twoClusters answers each transaction as another cluster than the one before.
type twoClusters struct {
	pb.UnimplementedKVServer
	answers chan uint64 // the ids of the clusters: each answer waits for one
	asked   chan time.Time
}

func (s *twoClusters) Txn(ctx context.Context, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.asked <- time.Now()
	select {
	case id := <-s.answers:
		ranges := &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}
		return &pb.TxnResponse{
			Header: &pb.ResponseHeader{ClusterId: id, Revision: 10}, Succeeded: true,
			Responses: []*pb.ResponseOp{{Response: ranges}},
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// If the endpoints belong to two clusters, every other answer looks like one of a restored cluster. The search for
// restored ballots still has one request under way at a time, with pauses between them.
func TestEndpointsOfTwoClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &twoClusters{answers: make(chan uint64), asked: make(chan time.Time, 1000)}
		server, listener := grpc.NewServer(), bufconn.Listen(1<<20)
		pb.RegisterKVServer(server, fake)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		defer func() { server.Stop(); require.NoError(t, <-served) }()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"member"}, DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		}})
		require.NoError(t, err)
		defer func() { _ = client.Close() }()

		d, err := newDriver(Config{Client: client, TTL: time.Minute})
		require.NoError(t, err)
		defer func() { d.life.Stop(); d.life.Wait() }()
		d.lease = 1
		for id := range uint64(50) {
			d.saw(0, &pb.ResponseHeader{ClusterId: id + 1, Revision: 10}, false)
		}
		var last time.Time
		for id := range uint64(5) { // each answer is again one of another cluster
			asked := <-fake.asked
			require.NotEqual(t, last, asked)
			last = asked
			synctest.Wait()
			require.Empty(t, fake.asked, "a request is sent before the one before is answered")
			fake.answers <- id + 100
		}
	})
}

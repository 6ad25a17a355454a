package etcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// watchStream is a stream of watches at a member that confirms each watch, and answers requests for progress or does not.
type watchStream struct {
	grpc.ClientStream
	ctx      context.Context
	progress bool
	answers  chan *pb.WatchResponse
}

func (s *watchStream) Context() context.Context {
	return peer.NewContext(s.ctx, &peer.Peer{Addr: memberAddr("member")})
}

func (s *watchStream) SendMsg(m any) error {
	r := m.(*pb.WatchRequest)
	switch {
	case r.GetCreateRequest() != nil:
		s.answers <- &pb.WatchResponse{Created: true, WatchId: 1}
	case s.progress:
		s.answers <- &pb.WatchResponse{WatchId: clientv3.InvalidWatchID}
	}
	return nil
}

func (s *watchStream) RecvMsg(m any) error {
	select {
	case a := <-s.answers:
		r := m.(*pb.WatchResponse)
		r.Header, r.Created, r.WatchId = &pb.ResponseHeader{Revision: 10}, a.Created, a.WatchId
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// A stream on which a member falls silent is given up within a quarter of the TTL, and its connection is closed. If there is one
// member only, it is not probed. A stream that does not answer three requests for progress is given up, too, and its
// connection stays: other things come over it.
func TestSilentStreamIsGivenUp(t *testing.T) {
	const ttl = 40 * time.Second
	for name, test := range map[string]struct {
		members          int
		progress, others bool          // what comes: answers to requests for progress, other things
		confirm          time.Duration // how often progress is asked for
		want             time.Duration // when the stream is given up; 0 if it is not
		hungUp           bool
	}{
		"silent":              {members: 3, want: 10 * time.Second, hungUp: true},
		"answers":             {members: 3, progress: true},
		"silent, and alone":   {members: 1},
		"others are answered": {members: 3, others: true},
		"no progress":         {members: 3, others: true, confirm: ttl / 4, want: 100 * time.Second / 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := newDriver(Config{Endpoints: []string{"a", "b", "c"}[:test.members], TTL: ttl})
				require.NoError(t, err)
				d.client, err = clientv3.New(clientv3.Config{
					Endpoints: []string{"member"}, Logger: zap.NewNop(),
					DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(func(ctx context.Context, _ *grpc.StreamDesc,
						_ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption,
					) (grpc.ClientStream, error) {
						return &watchStream{ctx: ctx, progress: test.progress, answers: make(chan *pb.WatchResponse, 100)}, nil
					})},
				})
				require.NoError(t, err)
				defer func() { _ = d.client.Close() }()
				defer d.life.Stop()
				var r renewals
				c := &connection{Conn: memberConn{cluster: &r, address: "member"}, dialled: time.Now()}
				d.connections["member"] = c
				r.start = time.Now()
				var h heard
				d.watches.set(h.watch("l", "a"))
				over := make(chan error, 1)
				go func() { over <- d.streamOf(d.client) }()
				for range 80 {
					time.Sleep(time.Second / 2)
					if test.others {
						c.heard.Store(int64(time.Since(c.dialled)))
					}
					if test.confirm > 0 && time.Since(r.start)%test.confirm == 0 {
						d.watches.progress(20, time.Now())
					}
					synctest.Wait()
					select {
					case err := <-over:
						require.Equal(t, errSilent, err)
						require.InDelta(t, test.want, time.Since(r.start), float64(time.Second))
						require.Equal(t, test.hungUp, len(r.hungUp) == 1)
						return
					default:
					}
				}
				require.Zero(t, test.want)
				require.Empty(t, r.hungUp)
			})
		})
	}
}

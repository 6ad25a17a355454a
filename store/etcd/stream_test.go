package etcd

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// watchStream is a stream of watches at a member that confirms each watch, and answers requests for progress or does not.
type watchStream struct {
	grpc.ClientStream
	ctx      context.Context
	member   *connection
	progress bool
	answers  chan *pb.WatchResponse
}

func (s *watchStream) Context() context.Context {
	return peer.NewContext(s.ctx, &peer.Peer{Addr: s.member.RemoteAddr()})
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
				r := renewals{start: time.Now()}
				c := &connection{Conn: memberConn{cluster: &r, address: "member"}, dialled: time.Now()}
				d.client, err = clientv3.New(clientv3.Config{
					Endpoints: []string{"member"}, Logger: zap.NewNop(),
					DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(func(ctx context.Context, _ *grpc.StreamDesc,
						_ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption,
					) (grpc.ClientStream, error) {
						return &watchStream{ctx: ctx, member: c, progress: test.progress, answers: make(chan *pb.WatchResponse, 100)}, nil
					})},
				})
				require.NoError(t, err)
				defer func() { _ = d.client.Close() }()
				defer d.life.Stop()
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

// A message that etcd does not send, or one that ends a watch, makes the stream of no use: it is opened anew, instead of
// leaving a watch without news.
func TestStreamIsOfNoUse(t *testing.T) {
	header := &pb.ResponseHeader{Revision: 12}
	for name, message := range map[string]*pb.WatchResponse{
		"no header":               {WatchId: 1},
		"no key in an event":      {Header: header, WatchId: 1, Events: []*mvccpb.Event{{}}},
		"a watch not asked for":   {Header: header, WatchId: 2, Created: true},
		"a watch that is no more": {Header: header, WatchId: 1, Canceled: true},
	} {
		t.Run(name, func(t *testing.T) {
			var h heard
			d := watching()
			d.watches.set(h.watch("l", "a"))
			d.confirms(t, 1, 10)
			require.Error(t, d.handle(message))
		})
	}
}

// The answer to a request that takes a watch back is no trouble.
func TestStreamIsOfUseWithoutAWatchTakenBack(t *testing.T) {
	var h heard
	d := watching()
	l := h.watch("l", "a")
	d.watches.set(l)
	d.watches.take()
	d.confirms(t, 1, 10)
	d.watches.stop(l)
	require.NoError(t, d.handle(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 12}, WatchId: 1, Canceled: true}))
}

// If the token of the stream has expired, all watches need a new stream. If a user may not read one key, others may be read.
func TestRefusedWatch(t *testing.T) {
	for reason, over := range map[string]bool{
		"etcdserver: invalid auth token": true,
		"etcdserver: permission denied":  false,
	} {
		t.Run(reason, func(t *testing.T) {
			var h heard
			d := watching()
			l := h.watch("l", "a")
			d.watches.set(l)
			err := d.handle(&pb.WatchResponse{
				Header: &pb.ResponseHeader{Revision: 12}, WatchId: -1, Created: true, Canceled: true, CancelReason: reason,
			})
			require.Equal(t, over, err != nil, "%v", err)
			require.ErrorContains(t, d.ready(t.Context(), l), reason)
		})
	}
}

// If the cluster refuses the stream for good, watches that wait for it say why. All others are set again.
func TestRefusedStream(t *testing.T) {
	for _, test := range []struct{ broke, want error }{
		{store.ErrDenied, store.ErrDenied},
		{store.ErrClosed, store.ErrClosed},
		{store.ErrUnknownOutcome, store.ErrUnavailable},
	} {
		var h heard
		d := watching()
		l := h.watch("l", "a")
		d.watches.set(l)
		d.watches.breakOff(test.broke)
		err := d.ready(t.Context(), l)
		require.ErrorIs(t, err, test.want)
		require.Equal(t, store.Refused(test.want), store.Refused(err))
		require.Equal(t, test.want == store.ErrUnavailable, err != test.broke)
	}
}

// A progress message confirms a request if it covers the revision that the cluster had when the request was sent. It
// confirms it to the watches that have reported something and ask for it.
func TestProgressConfirms(t *testing.T) {
	var h heard
	d := watching()
	l, late, ballot := h.watch("l", "a"), h.watch("late", "b"), h.watch("ballot", "c")
	ballot.dated = false
	for i, l := range []*watch{l, late, ballot} {
		d.watches.set(l)
		d.watches.take()
		d.confirms(t, int64(i+1), 10)
	}
	require.NoError(t, d.shows(l, "a", 10))
	require.NoError(t, d.shows(ballot, "c", 10))
	h.take()
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	d.watches.progress(20, at)
	d.watches.progress(30, at.Add(time.Second))
	d.progresses(t, 19)
	require.Empty(t, h)
	d.progresses(t, 20)
	require.Equal(t, heard{"l as of 00"}, h.take())
	require.NoError(t, d.shows(late, "b", 25))
	d.progresses(t, 30)
	require.ElementsMatch(t, heard{"late 25", "l as of 01", "late as of 01"}, h.take())

	d.watches.stop(l)
	d.watches.progress(40, at.Add(2*time.Second))
	d.progresses(t, 40)
	require.Equal(t, heard{"late as of 02"}, h.take(), "the other one has left")
	d.watches.breakOff(fmt.Errorf("cut"))
	require.ElementsMatch(t, heard{"late over", "ballot over"}, h.take())
	d.watches.set(h.watch("again", "a"))
	d.confirms(t, 1, 10)
	d.watches.progress(50, at.Add(3*time.Second))
	d.progresses(t, 50)
	require.Empty(t, h, "the watch before is over, and the new one has told nothing")
}

// silent reports whether several requests for progress have no answer.
func (d *driver) silent() bool {
	_, _, lost := d.watches.probe(false)
	return lost
}

// A stream on which several requests for progress have no answer is given up, also if no watch was ever confirmed.
func TestStreamWithoutProgressIsSilent(t *testing.T) {
	for name, confirmed := range map[string]bool{"confirmed": true, "not confirmed": false} {
		t.Run(name, func(t *testing.T) {
			var h heard
			d := watching()
			d.watches.progress(5, time.Now()) // nothing is watched: progress is not requested
			d.watches.set(h.watch("l", "a"))
			if confirmed {
				d.confirms(t, 1, 10)
			}
			for range 3 {
				require.False(t, d.silent())
				d.watches.progress(20, time.Now())
			}
			require.True(t, d.silent())
			d.progresses(t, 20)
			require.False(t, d.silent())
		})
	}
}

// While the cluster refuses all watches it reports no progress, but the stream answers and is kept. If one watch is
// set, progress has to come.
func TestRefusedWatchesAreNoSilence(t *testing.T) {
	var h heard
	d := watching()
	refuses := func() {
		t.Helper()
		l := h.watch("l", "a")
		d.watches.set(l)
		d.watches.progress(20, time.Now())
		require.NoError(t, d.handle(&pb.WatchResponse{
			Header: &pb.ResponseHeader{Revision: 10}, Created: true, Canceled: true, WatchId: -1,
			CancelReason: "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
		}))
		require.ErrorIs(t, d.ready(t.Context(), l), store.ErrDenied)
	}
	for range 5 {
		refuses()
		require.False(t, d.silent())
	}
	d.watches.set(h.watch("set", "b"))
	d.confirms(t, 1, 10)
	for range 3 {
		require.False(t, d.silent())
		refuses()
	}
	require.True(t, d.silent())
}

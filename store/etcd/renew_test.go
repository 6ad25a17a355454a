package etcd

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// never is the delay of an answer that never comes.
const never = time.Hour

// renewals is a cluster that only renews leases, in virtual time: each stream answers when the script says.
type renewals struct {
	start  time.Time
	script []time.Duration // after how long each renewal is answered; the last one is for all that follow
	over   int             // the renewal from which on the lease is over; 0: it never is
	moved  int             // the renewal from which on another cluster answers; 0: none does
	refuse error           // why no stream is opened
	closed bool            // the client was closed before Keep

	mu      sync.Mutex
	asked   []asked         // guarded by mu, as are all below
	streams int             // that have been opened
	given   []time.Duration // when streams that owed an answer were given up
	hungUp  []time.Duration // when the connection to the member was closed
	warned  []warning       // what was logged

	proofs []engine.Proof // what Keep has proved
	err    error          // what Keep returned
}

// asked is a renewal that was sent.
type asked struct {
	at     time.Duration
	stream int
}

// warning is something that was logged at level Warn.
type warning struct {
	at   time.Duration
	text string
}

// Write implements io.Writer: what the store logs at level Warn.
func (r *renewals) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warned = append(r.warned, warning{time.Since(r.start), string(p)})
	return len(p), nil
}

// ask notes a renewal and returns after how long it is answered.
func (r *renewals) ask(stream int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, asked{time.Since(r.start), stream})
	return r.script[min(len(r.asked), len(r.script))-1]
}

func (r *renewals) sent() []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]asked(nil), r.asked...)
}

// renewalStream is one stream of renewals.
type renewalStream struct {
	grpc.ClientStream
	cluster *renewals
	ctx     context.Context
	number  int
	answer  <-chan time.Time
}

func (s *renewalStream) Context() context.Context {
	return peer.NewContext(s.ctx, &peer.Peer{Addr: memberAddr{}})
}

func (s *renewalStream) SendMsg(any) error {
	s.answer = time.After(s.cluster.ask(s.number))
	return nil
}

func (s *renewalStream) RecvMsg(m any) error {
	select {
	case <-s.answer:
		resp := m.(*pb.LeaseKeepAliveResponse)
		resp.Header = &pb.ResponseHeader{ClusterId: 7}
		if moved := s.cluster.moved; moved != 0 && len(s.cluster.sent()) >= moved {
			resp.Header.ClusterId = 8
		}
		if over := s.cluster.over; over == 0 || len(s.cluster.sent()) < over {
			resp.TTL = 10
		}
		return nil
	case <-s.ctx.Done():
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		s.cluster.given = append(s.cluster.given, time.Since(s.cluster.start))
		return s.ctx.Err()
	}
}

// memberConn is the connection to the cluster's member.
type memberConn struct {
	net.Conn
	cluster *renewals
}

type memberAddr struct{}

func (memberAddr) Network() string { return "tcp" }
func (memberAddr) String() string  { return "member" }

func (memberConn) RemoteAddr() net.Addr { return memberAddr{} }

func (c memberConn) Close() error {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.hungUp = append(c.cluster.hungUp, time.Since(c.cluster.start))
	return nil
}

// renewing renews a lease of 10 s for some time, while the cluster answers as the script says.
func renewing(t *testing.T, endpoints int, duration time.Duration, script ...time.Duration) *renewals {
	r := &renewals{script: script}
	r.renew(t, endpoints, duration)
	return r
}

func (r *renewals) renew(t *testing.T, endpoints int, duration time.Duration) {
	stream := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer,
		_ ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.streams++
		if r.refuse != nil {
			return nil, r.refuse
		}
		return &renewalStream{cluster: r, ctx: ctx, number: r.streams}, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"member"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(stream)}, // no connection is ever requested
	})
	require.NoError(t, err)
	if r.closed {
		_ = client.Close()
	}
	defer func() { _ = client.Close() }()
	logger := slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d := &driver{
		config: Config{TTL: 10 * time.Second, Grace: 10 * time.Second / 3, Logger: logger}, life: adapter.NewLifecycle("etcd", false, ""),
		client: client, endpoints: endpoints,
	}
	d.connections = map[string]*connection{"member": {Conn: memberConn{cluster: r}, dialled: time.Now()}}
	time.Sleep(time.Second) // the connection is as old as the renewals
	r.start = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keeping sync.WaitGroup
	sess := &session{driver: d, cluster: 7}
	keeping.Go(func() { r.err = sess.Keep(ctx, func(p engine.Proof) { r.proofs = append(r.proofs, p) }) })
	time.Sleep(duration)
	synctest.Wait()
	cancel()
	keeping.Wait()
}

// A renewal is sent a quarter of the TTL after the one before. If its answer is late, the member is left, and the next one
// goes over another stream.
func TestLateRenewal(t *testing.T) {
	const ms, sixth = time.Millisecond, 10 * time.Second / 6
	for name, test := range map[string]struct {
		endpoints int
		script    []time.Duration
		want      []asked
		left      []time.Duration
	}{
		"the first": {
			3, []time.Duration{never},
			[]asked{{0, 1}, {sixth + 50*ms, 2}, {sixth + 2650*ms, 3}},
			[]time.Duration{sixth, sixth + 2550*ms},
		},
		"after quick answers": {
			3, []time.Duration{100 * ms, 100 * ms, never, 100 * ms, never},
			[]asked{{0, 1}, {2500 * ms, 1}, {5000 * ms, 1}, {5050*ms + sixth, 2}, {7550*ms + sixth, 2}, {7600*ms + 2*sixth, 3}},
			[]time.Duration{5000*ms + sixth, 7550*ms + 2*sixth},
		},
		"slow answers": {3, []time.Duration{1250 * ms}, []asked{{0, 1}, {2500 * ms, 1}, {5000 * ms, 1}}, nil},
		"the only member": {
			1, []time.Duration{2400 * ms, never},
			[]asked{{0, 1}, {2500 * ms, 1}, {5050 * ms, 2}, {7650 * ms, 3}},
			[]time.Duration{5000 * ms, 7550 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := renewing(t, test.endpoints, test.want[len(test.want)-1].at+ms, test.script...)
				require.Equal(t, test.want, r.sent())
				require.Equal(t, test.left, r.hungUp)
				require.Len(t, r.given, len(r.hungUp)+1, "all but the last stream have been given up before")
			})
		})
	}
}

// Each answer proves that the lease stands for the TTL less the grace after the renewal was sent. When the cluster
// reports that the lease is over, Keep returns nil, and not before. When Keep is told to end, it returns the reason.
func TestKeepEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{script: []time.Duration{100 * time.Millisecond}, over: 3}
		r.renew(t, 3, 20*time.Second)
		require.NoError(t, r.err)
		require.Len(t, r.sent(), 3)
		require.Len(t, r.proofs, 2)
		for i, p := range r.proofs {
			require.Equal(t, r.sent()[i].at, p.Sent.Time().Sub(r.start))
			require.Equal(t, 10*time.Second-10*time.Second/3, p.Valid)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		require.ErrorIs(t, renewing(t, 3, 20*time.Second, 100*time.Millisecond).err, context.Canceled)
	})
}

// A renewal that another cluster answers proves nothing, and the session is given up.
func TestKeepEndsInAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{script: []time.Duration{100 * time.Millisecond}, moved: 3}
		r.renew(t, 3, 20*time.Second)
		require.Equal(t, errAnotherCluster, r.err)
		require.Len(t, r.proofs, 2)
	})
}

// Each proof names the stream on which it came: another number makes the engine look what the service keeps.
func TestProofsNameTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := renewing(t, 3, 20*time.Second, 100*time.Millisecond, never, 100*time.Millisecond)
		var streams []uint64
		for _, p := range r.proofs {
			streams = append(streams, p.Connection)
		}
		require.Equal(t, []uint64{1, 2}, slices.Compact(streams))
	})
}

// The engine logs an outage, and the keeper nothing: each of its tries would have another text.
func TestKeeperLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Empty(t, renewing(t, 3, 15*time.Second, never).warned)
	})
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{refuse: status.Error(codes.Unavailable, "connection reset by peer")}
		r.renew(t, 3, time.Minute)
		require.Empty(t, r.warned)
		require.Less(t, r.streams, 3*60, "tries in a minute")
	})
}

// A cluster that denies renewals is asked every quarter of the TTL: the permission may come back. If the caller has closed
// its client, Keep ends at once.
func TestRenewalsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{refuse: rpctypes.ErrGRPCPermissionDenied}
		r.renew(t, 3, 9*time.Second)
		require.ErrorIs(t, r.err, context.Canceled)
		require.Equal(t, 5, r.streams, "the last one when it was told to end")
	})
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{refuse: status.Error(codes.Canceled, "the client connection is closing"), closed: true}
		r.renew(t, 3, 9*time.Second)
		require.ErrorIs(t, r.err, store.ErrClosed)
		require.Equal(t, 1, r.streams)
	})
}

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
	d.connections = map[string]*connection{"member": {Conn: memberConn{cluster: r}, driver: d, dialled: time.Now()}}
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

// A renewal is sent a quarter of the TTL after the one before. If its answer is late, it is sent again on another
// stream: after a tenth of the TTL; if the line is slow, after 1.5 times the shorter of the last two round trips; after
// a fifth of the TTL at the latest.
func TestLateRenewalIsSentOnAnotherStream(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		script []time.Duration
		want   []asked
	}{
		"the first": {
			[]time.Duration{never},
			[]asked{{0, 1}, {1000 * ms, 2}, {2000 * ms, 3}},
		},
		"quick answers": {
			[]time.Duration{100 * ms, 100 * ms, never},
			[]asked{{0, 1}, {2500 * ms, 1}, {5000 * ms, 1}, {6000 * ms, 2}, {7000 * ms, 3}},
		},
		// The answer that came late, after 1.2 s, does not count as the line's round trip.
		"one slow answer": {
			[]time.Duration{100 * ms, 1200 * ms, never, never},
			[]asked{{0, 1}, {2500 * ms, 1}, {3500 * ms, 2}, {5000 * ms, 1}, {6000 * ms, 3}, {7000 * ms, 4}},
		},
		// There is no other round trip: 1.5 times this one.
		"one slow answer, the first": {
			[]time.Duration{1200 * ms, never},
			[]asked{{0, 1}, {1000 * ms, 2}, {2500 * ms, 1}, {4300 * ms, 3}, {6100 * ms, 4}},
		},
		"one slow answer before one quick": {
			[]time.Duration{1200 * ms, never, 100 * ms, never},
			[]asked{{0, 1}, {1000 * ms, 2}, {2500 * ms, 1}, {5000 * ms, 1}, {6000 * ms, 3}, {7000 * ms, 4}},
		},
		"two slow answers, the second slower": {
			[]time.Duration{1200 * ms, never, 1300 * ms, never},
			[]asked{{0, 1}, {1000 * ms, 2}, {2500 * ms, 1}, {5000 * ms, 1}, {6800 * ms, 3}, {8600 * ms, 4}},
		},
		"two slow answers, the first slower": {
			[]time.Duration{1300 * ms, never, 1200 * ms, never},
			[]asked{{0, 1}, {1000 * ms, 2}, {2500 * ms, 1}, {5000 * ms, 1}, {6800 * ms, 3}, {8600 * ms, 4}},
		},
		// Only the last two round trips count.
		"two slow answers after quick ones": {
			[]time.Duration{100 * ms, 1200 * ms, never, 1200 * ms, never, never},
			[]asked{
				{0, 1}, {2500 * ms, 1}, {3500 * ms, 2}, {5000 * ms, 1}, {6000 * ms, 3},
				{7500 * ms, 1}, {9300 * ms, 4},
			},
		},
		// 1.5 times 1.6 s is more than a fifth of the TTL.
		"two very slow answers": {
			[]time.Duration{1600 * ms, never, 1600 * ms, never},
			[]asked{{0, 1}, {1000 * ms, 2}, {2500 * ms, 1}, {5000 * ms, 1}, {7000 * ms, 3}, {9000 * ms, 4}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				last := test.want[len(test.want)-1].at
				r := renewing(t, 3, last+50*ms, test.script...)
				require.Equal(t, test.want, r.sent())
			})
		})
	}
}

// If a member does not answer a renewal, the store leaves it after a fifth of the TTL, or after 1.5 times the shorter
// of the last two round trips. It leaves the only member after three tenths of the TTL.
func TestSilentMemberIsLeftByRenewals(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		endpoints int
		script    []time.Duration
		want      time.Duration
	}{
		"quick answers":         {3, []time.Duration{100 * ms, 100 * ms, never}, 7000 * ms},
		"one slow answer":       {3, []time.Duration{100 * ms, 1200 * ms, never}, 7000 * ms},
		"two slow answers":      {3, []time.Duration{1200 * ms, never, 1200 * ms, never}, 8600 * ms},
		"two very slow answers": {3, []time.Duration{1600 * ms, never, 1600 * ms, never}, 9000 * ms},
		"the only one":          {1, []time.Duration{100 * ms, 100 * ms, never}, 8000 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := renewing(t, test.endpoints, test.want-time.Millisecond, test.script...)
				require.Empty(t, r.hungUp)
			})
			synctest.Test(t, func(t *testing.T) {
				r := renewing(t, test.endpoints, test.want, test.script...)
				require.Equal(t, []time.Duration{test.want}, r.hungUp)
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
		require.Equal(t, []uint64{0, 1}, slices.Compact(streams))
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

// When a renewal has its answer, the other streams are given up. If none has one, each is given up when its answer would
// come too late to count. They would stay for as long as their members are silent.
func TestStreamsOfLateRenewalsAreGivenUp(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, []time.Duration{3600 * ms}, renewing(t, 3, 9*time.Second, 100*ms, never, 100*ms).given)
	})
	synctest.Test(t, func(t *testing.T) {
		r := renewing(t, 3, 9500*ms, never)
		require.Equal(t, []time.Duration{7000 * ms, 8000 * ms, 9000 * ms}, r.given[:3])
		require.Len(t, r.given, mostRenewers+3, "the others waited until the end")
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

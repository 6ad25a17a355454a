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
	start   time.Time
	script  []time.Duration // after how long each renewal is answered; the last one is for all that follow
	over    int             // the renewal from which on the lease is over; 0: it never is
	moved   int             // the renewal from which on another cluster answers; 0: none does
	refuse  error           // why no stream is opened
	refused int             // how many are not; 0: all
	closed  bool            // the client was closed before Keep

	members     []string // whose the streams are, in turn; the last one's are all that follow. "": that is not known
	connections map[string]*connection

	mu      sync.Mutex
	asked   []asked         // guarded by mu, as are all below
	streams int             // that have been opened
	reached []string        // to whom renewals were sent
	hungUp  []time.Duration // when the connection to the member was closed

	proofs []engine.Proof // what Keep has proved
	err    error          // what Keep returned
}

// asked is a renewal that was sent.
type asked struct {
	at     time.Duration
	stream int
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
	member  string // "" if it is not known
	answer  <-chan time.Time
}

func (s *renewalStream) Context() context.Context {
	if s.member == "" {
		return s.ctx
	}
	return peer.NewContext(s.ctx, &peer.Peer{Addr: s.cluster.connections[s.member].RemoteAddr()})
}

func (s *renewalStream) SendMsg(any) error {
	s.cluster.reached = append(s.cluster.reached, s.member)
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
		return s.ctx.Err()
	}
}

// memberConn is the connection to the cluster's member.
type memberConn struct {
	net.Conn
	cluster *renewals
	address memberAddr
}

type memberAddr string

func (memberAddr) Network() string  { return "tcp" }
func (a memberAddr) String() string { return string(a) }

func (c memberConn) RemoteAddr() net.Addr { return c.address }

func (c memberConn) Close() error {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.hungUp = append(c.cluster.hungUp, time.Since(c.cluster.start))
	return nil
}

// renewing renews a lease of 10 s for some time, while the cluster answers as the script says.
func renewing(t *testing.T, endpoints int, duration time.Duration, script ...time.Duration) *renewals {
	r := &renewals{script: script, members: []string{"a", "b", "c"}[:endpoints]}
	r.renew(t, endpoints, duration)
	return r
}

func (r *renewals) renew(t *testing.T, endpoints int, duration time.Duration) {
	if r.members == nil {
		r.members = []string{"a"}
	}
	stream := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer,
		_ ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.streams++
		if r.refuse != nil && (r.refused == 0 || r.streams <= r.refused) {
			return nil, r.refuse
		}
		return &renewalStream{cluster: r, ctx: ctx, number: r.streams, member: r.members[min(r.streams, len(r.members))-1]}, nil
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
	d := &driver{
		config: Config{TTL: 10 * time.Second, Grace: 10 * time.Second / 3, Logger: slog.New(slog.DiscardHandler)}, life: adapter.NewLifecycle("etcd", false, ""),
		client: client, endpoints: endpoints,
	}
	r.connections = map[string]*connection{}
	for _, m := range r.members {
		r.connections[m] = &connection{Conn: memberConn{cluster: r, address: memberAddr(m)}, dialled: time.Now()}
	}
	time.Sleep(time.Second) // the connection is as old as the renewals
	r.start = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keeping sync.WaitGroup
	sess := &session{driver: d, cluster: 7, history: d.history()}
	keeping.Go(func() { r.err = sess.Keep(ctx, func(p engine.Proof) { r.proofs = append(r.proofs, p) }) })
	time.Sleep(duration)
	synctest.Wait()
	cancel()
	keeping.Wait()
}

// A renewal is sent a quarter of the TTL after the one before. If its answer is late, it is sent again on another stream: after
// a sixth of the TTL, or a quarter if there is one endpoint only. The store leaves the member.
func TestLateRenewalIsSentOnAnotherStream(t *testing.T) {
	const ms, sixth = time.Millisecond, 10 * time.Second / 6
	for name, test := range map[string]struct {
		endpoints int
		script    []time.Duration
		want      []asked
		hungUp    []time.Duration
	}{
		"the first": {
			3, []time.Duration{never},
			[]asked{{0, 1}, {sixth, 2}, {2 * sixth, 3}}, []time.Duration{sixth, 2 * sixth},
		},
		"quick answers": {
			3, []time.Duration{100 * ms, 100 * ms, never, 100 * ms, never},
			[]asked{{0, 1}, {2500 * ms, 1}, {5000 * ms, 1}, {5000*ms + sixth, 2}, {7500*ms + sixth, 2}, {7500*ms + 2*sixth, 3}},
			[]time.Duration{5000*ms + sixth, 7500*ms + 2*sixth},
		},
		"slow answers": {
			3, []time.Duration{sixth - 1},
			[]asked{{0, 1}, {2500 * ms, 1}, {5000 * ms, 1}}, nil,
		},
		"the only one": {
			1, []time.Duration{2400 * ms, 2400 * ms, never},
			[]asked{{0, 1}, {2500 * ms, 1}, {5000 * ms, 1}, {7500 * ms, 2}, {10000 * ms, 3}},
			[]time.Duration{7500 * ms, 10000 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				last := test.want[len(test.want)-1].at
				r := renewing(t, test.endpoints, last+50*ms, test.script...)
				require.Equal(t, test.want, r.sent())
				require.Equal(t, test.hungUp, r.hungUp)
			})
		})
	}
}

// After a renewal that has failed, the stream is opened at another member, if one is connected.
func TestNextRenewalGoesToAnotherMember(t *testing.T) {
	for name, test := range map[string]struct {
		members []string // of the streams, in turn
		want    []string // to whom renewals are sent
	}{
		"at once":        {[]string{"a", "b"}, []string{"a", "b", "b"}},
		"at the second":  {[]string{"a", "a", "b"}, []string{"a", "b", "b"}},
		"there is none":  {[]string{"a", "a", "a", "a"}, []string{"a", "a", "a"}},
		"one is unknown": {[]string{"a", ""}, []string{"a", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &renewals{script: []time.Duration{never, time.Millisecond}, members: test.members}
				r.renew(t, 3, 5*time.Second)
				require.Equal(t, test.want, r.reached)
				require.Len(t, r.proofs, 2)
				require.Equal(t, len(test.members), r.streams)
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

// Each proof names the stream on which it came, the first one 1, as the grant's proof
// does. Another number makes the engine look what the service keeps. A stream that could not be opened counts too.
func TestProofsNameTheirStream(t *testing.T) {
	for name, test := range map[string]struct {
		cluster *renewals
		want    []uint64
	}{
		"one is late":           {&renewals{script: []time.Duration{time.Millisecond, never, time.Millisecond}}, []uint64{1, 2}},
		"the first is not open": {&renewals{script: []time.Duration{time.Millisecond}, refuse: errUnavailable, refused: 1}, []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := test.cluster
				r.renew(t, 1, 20*time.Second)
				var streams []uint64
				for _, p := range r.proofs {
					streams = append(streams, p.Connection)
				}
				require.Equal(t, test.want, slices.Compact(streams))
			})
		})
	}
}

var errUnavailable = status.Error(codes.Unavailable, "connection reset by peer")

// A cluster that denies renewals is asked every quarter of the TTL: the permission may come back. If the caller has closed
// its client, Keep ends at once.
func TestRenewalsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{refuse: rpctypes.ErrGRPCPermissionDenied}
		r.renew(t, 3, 9*time.Second)
		require.ErrorIs(t, r.err, context.Canceled)
		require.Equal(t, 4, r.streams)
	})
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{refuse: status.Error(codes.Canceled, "the client connection is closing"), closed: true}
		r.renew(t, 3, 9*time.Second)
		require.ErrorIs(t, r.err, store.ErrClosed)
		require.Equal(t, 1, r.streams)
	})
}

// The only connection falls silent: the lease holds, since renewals go on over another one.
func TestConnectionFallsSilent(t *testing.T) {
	t.Parallel()
	const ttl = 24 * time.Second // a busy machine takes seconds for a new connection
	address := sharedServer(t).Addrs()[0]
	var lines muter
	b := castFirst(t, open(t, Config{Endpoints: []string{address}, Dial: lines.Dial, TTL: ttl}), newElection(), "own")
	span, ok := b.Lease().Span()
	require.True(t, ok)
	for range 2 {
		renewal := b.Lease().Last()
		lines.mute(address)
		eventually(t, func() bool {
			require.True(t, b.Lease().Holds(span))
			return b.Lease().Last().Sent.Sub(renewal.Sent) > ttl/2
		}, "renewals over another connection")
	}
	require.NoError(t, b.Err())
}

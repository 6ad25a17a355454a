package grpcresolver_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/grpcresolver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	election = "database/primary"
	target   = "leadership:///" + election
	patience = 2 * time.Minute // how long a test waits for what has to come
	long     = 2 * time.Minute // a TTL whose end no test waits for
)

// server is a gRPC server that says its address in each answer. It answers also if it does not lead, unlike a
// program's.
type server struct {
	grpc_health_v1.UnimplementedHealthServer
	address string
}

func (s *server) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, grpc.SetHeader(ctx, metadata.Pairs("address", s.address))
}

// Watch sends a message, and ends with the client's context.
func (s *server) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	if err := stream.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// serve starts a server, which the end of the test stops, and returns its address.
func serve(t *testing.T, listen string, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	s := grpc.NewServer(opts...)
	grpc_health_v1.RegisterHealthServer(s, &server{address: l.Addr().String()})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return l.Addr().String()
}

// member is a process that stands for election and serves.
type member struct {
	address   string
	store     store.Store
	candidate *leadership.Candidate
	term      *leadership.Term
}

// world is three members, and a follower of theirs with a store of its own.
type world struct {
	*testing.T
	members  []*member
	store    store.Store
	follower *leadership.Follower
}

// newWorld returns a world on stores that open makes.
func newWorld(t *testing.T, open func() store.Store) *world {
	t.Helper()
	w := &world{T: t, store: open()}
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	for range 3 {
		m := &member{address: serve(t, "127.0.0.1:0"), store: open()}
		t.Cleanup(func() { require.NoError(t, m.store.Close()) })
		w.members = append(w.members, m)
	}
	var err error
	w.follower, err = leadership.NewFollower(w.store, election, nil)
	require.NoError(t, err)
	t.Cleanup(func() { w.follower.Stop(); <-w.follower.Done() })
	return w
}

// inMemory returns a function that opens stores of one service. The first, which is the follower's, has the TTL.
func inMemory(t *testing.T, ttl time.Duration) func() store.Store {
	service := memory.NewService()
	return func() store.Store {
		st, err := memory.Open(service, &memory.Config{TTL: ttl})
		require.NoError(t, err)
		ttl = long
		return st
	}
}

// elect makes a member the leader.
func (w *world) elect(m *member) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var err error
	m.candidate, err = leadership.NewCandidate(m.store, election, m.address, nil)
	require.NoError(w, err)
	m.term, err = m.candidate.Campaign(ctx)
	require.NoError(w, err)
	require.NoError(w, m.term.Acknowledge(ctx))
}

// resign ends the leadership of a member.
func (w *world) resign(m *member) {
	w.Helper()
	require.NoError(w, m.term.Withdraw(w.Context()))
	m.candidate.Stop()
	<-m.candidate.Done()
}

// dial returns a connection to the leader, which the end of the test closes.
func (w *world) dial(b resolver.Builder, opts ...grpc.DialOption) *grpc.ClientConn {
	w.Helper()
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(b),
	}, opts...)...)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, conn.Close()) })
	return conn
}

// call returns the address of the server that has answered.
func call(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	var header metadata.MD
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, append(opts, grpc.Header(&header))...)
	if err != nil {
		return "", err
	}
	return header.Get("address")[0], nil
}

// answers waits until calls on the connection are answered by a member.
func (w *world) answers(conn *grpc.ClientConn, m *member) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for {
		address, err := call(ctx, conn, grpc.WaitForReady(true))
		require.NoError(w, err)
		if address == m.address {
			return
		}
	}
}

// fails waits until calls on the connection fail with codes.Unavailable and these words.
func (w *world) fails(conn *grpc.ClientConn, words string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for {
		_, err := call(ctx, conn)
		if err == nil {
			continue
		}
		require.Equal(w, codes.Unavailable, status.Code(err), "instead of %q: %v", words, err)
		if strings.Contains(err.Error(), words) {
			return
		}
	}
}

// told keeps what the resolvers of a builder have told, in order: addresses, empty without a leader. There is one
// resolver at a time.
type told struct {
	resolver.Builder
	mu      sync.Mutex
	begun   []string // guarded by mu: what was about to be told
	settled int      // guarded by mu: how many of these were told
}

func newTold(f *leadership.Follower) *told { return &told{Builder: grpcresolver.NewBuilder(f, nil)} }

func (o *told) Build(target resolver.Target, conn resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	return o.Builder.Build(target, &toldConn{ClientConn: conn, told: o}, opts)
}

type toldConn struct {
	resolver.ClientConn
	told *told
}

func (c *toldConn) UpdateState(s resolver.State) error {
	address := ""
	if len(s.Addresses) > 0 {
		address = s.Addresses[0].Addr
	}
	c.told.mu.Lock()
	c.told.begun = append(c.told.begun, address)
	c.told.mu.Unlock()
	defer func() {
		c.told.mu.Lock()
		defer c.told.mu.Unlock()
		c.told.settled = len(c.told.begun)
	}()
	return c.ClientConn.UpdateState(s)
}

// check calls, and reports an answer of a server that was not the leader in what was told from the beginning of the
// call to its end.
func (o *told) check(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
	o.mu.Lock()
	from := max(o.settled-1, 0)
	o.mu.Unlock()
	address, err := call(ctx, conn, opts...)
	if err != nil {
		if ctx.Err() != nil || status.Code(err) == codes.Unavailable {
			return nil
		}
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if during := o.begun[from:]; !slices.Contains(during, address) {
		return fmt.Errorf("%s has answered, while the resolver told of %q", address, during)
	}
	return nil
}

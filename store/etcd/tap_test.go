package etcd

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// muter dials connections that can be made silent: nothing that the server sends over them arrives any more.
type muter struct {
	mu    sync.Mutex
	conns []*mutable
}

type mutable struct {
	net.Conn
	mu    sync.Mutex
	muted bool // guarded by mu
}

func (m *muter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &mutable{Conn: conn}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return c, nil
}

// mute makes the present connections to an address silent.
func (m *muter) mute(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if c.RemoteAddr().String() == address {
			c.mu.Lock()
			c.muted = true
			c.mu.Unlock()
		}
	}
}

func (c *mutable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		c.mu.Lock()
		muted := c.muted
		c.mu.Unlock()
		if !muted || err != nil {
			return n, err
		}
	}
}

// tap is between a store and its client's connection, so that a test can affect a single request or reply;
// conformance.Network affects all of them. The client is a caller's, as in Config.Client.
type tap struct {
	storetest.Requests[catch] // "Txn ..." with the message as text

	client *clientv3.Client

	mu      sync.Mutex
	streams []string // guarded by mu: the methods of all streams
}

// catch waits for one request, which is carried out. The reply comes when the test lets it go.
type catch struct {
	caught  chan struct{} // closed when the request has been carried out
	release chan struct{} // closed by the test to let the reply go
	once    sync.Once
}

func (c *catch) letGo() { c.once.Do(func() { close(c.release) }) }

// readTxn is how the text of a request begins that reads and has no condition.
const readTxn = "Txn success:{request_range"

// newTap returns a tap whose client is connected to the shared server.
func newTap(t *testing.T) *tap {
	t.Helper()
	tp := &tap{}
	tp.client = connect(t, clientv3.Config{
		Endpoints: sharedServer(t).Addrs(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(tp.unary), grpc.WithChainStreamInterceptor(tp.stream),
		},
	})
	return tp
}

// catch waits for the next request that contains all of the texts: "Txn", "_ballots", ...
func (tp *tap) catch(t *testing.T, text ...string) *catch {
	c := &catch{caught: make(chan struct{}), release: make(chan struct{})}
	tp.Await(c, text...)
	t.Cleanup(c.letGo)
	return c
}

// describe returns a request as text, without the spaces, which the protobuf library varies.
func describe(method string, message any) string {
	text := method[strings.LastIndexByte(method, '/')+1:]
	if m, ok := message.(interface{ String() string }); ok {
		text += " " + strings.Join(strings.Fields(m.String()), " ")
	} else if m, ok := message.(proto.Message); ok {
		text += " " + string(m.ProtoReflect().Descriptor().Name())
	}
	return text
}

func (tp *tap) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	c := tp.Note(describe(method, req))
	err := invoke(ctx, method, req, reply, cc, opts...)
	if c == nil {
		return err
	}
	close(c.caught)
	select {
	case <-c.release:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (tp *tap) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	tp.mu.Lock()
	tp.streams = append(tp.streams, method)
	tp.mu.Unlock()
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &tappedStream{ClientStream: s, tap: tp, method: method}, nil
}

// opened counts the streams of a method so far.
func (tp *tap) opened(method string) int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	n := 0
	for _, m := range tp.streams {
		if strings.HasSuffix(m, "/"+method) {
			n++
		}
	}
	return n
}

// tappedStream is a stream whose requests are counted.
type tappedStream struct {
	grpc.ClientStream
	tap    *tap
	method string
}

func (s *tappedStream) SendMsg(m any) error {
	s.tap.Note(describe(s.method, m))
	return s.ClientStream.SendMsg(m)
}

package etcd_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// tap is between a store and its client's connection, so that a test can affect a single request or reply;
// conformance.Network affects all of them. The client is a caller's, as in Config.Client.
type tap struct {
	storetest.Requests[catch] // "Txn ..." with the message as text

	client *clientv3.Client

	mu      sync.Mutex
	streams []string // guarded by mu, as is deaf; the methods of all streams
	deaf    bool     // nothing of a stream of watches arrives
	held    sync.WaitGroup
}

// catch waits for one request.
type catch struct {
	fate    fate
	caught  chan struct{} // closed when the request has been sent, or would have been
	arrived chan error    // gets the outcome of a request whose reply was lost, or that was held
	release chan struct{} // closed by the test to let a held one go
	once    sync.Once
}

func (c *catch) letGo() { c.once.Do(func() { close(c.release) }) }

// readTxn is how the text of a request begins that reads and has no condition.
const readTxn = "Txn success:{request_range"

// fate is what happens to a request that is caught.
type fate int

const (
	loseReply fate = iota // it is carried out, and its sender told that the connection broke
	hold                  // its sender is told that the connection broke; it is carried out when the test lets it go
	holdReply             // it is carried out; its reply comes when the test lets it go
)

var errBroke = status.Error(codes.Unavailable, "the test broke the connection")

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
	t.Cleanup(tp.held.Wait) // before the client is closed, after all catches are let go
	return tp
}

// catch waits for the next request that contains all of the texts: "Txn", "_ballots", ...
func (tp *tap) catch(t *testing.T, fate fate, text ...string) *catch {
	c := &catch{
		fate: fate, caught: make(chan struct{}), arrived: make(chan error, 1), release: make(chan struct{}),
	}
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
	if c == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	switch c.fate {
	case loseReply:
		c.arrived <- invoke(ctx, method, req, reply, cc, opts...)
		close(c.caught)
		return errBroke
	case hold:
		close(c.caught)
		tp.held.Go(func() {
			<-c.release
			c.arrived <- invoke(context.WithoutCancel(ctx), method, req, reply, cc) // the caller has gone on
		})
		return errBroke
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
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
	silent bool // a message was lost, so all after it are; of the receiver alone
}

// silenceWatches drops everything that comes on streams of watches, until the returned function is called. A stream
// that has lost a message stays silent: nothing arrives behind a gap.
func (tp *tap) silenceWatches() (heard func()) {
	set := func(deaf bool) {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.deaf = deaf
	}
	set(true)
	return func() { set(false) }
}

func (s *tappedStream) RecvMsg(m any) error {
	for {
		err := s.ClientStream.RecvMsg(m)
		s.tap.mu.Lock()
		s.silent = s.silent || s.tap.deaf && strings.HasSuffix(s.method, "/Watch")
		s.tap.mu.Unlock()
		if err != nil || !s.silent {
			return err
		}
	}
}

func (s *tappedStream) SendMsg(m any) error {
	s.tap.Note(describe(s.method, m))
	return s.ClientStream.SendMsg(m)
}

package grpcresolver_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/grpcresolver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/file"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// While leaders change, each call is answered by one that the resolver has told of, and by no former one.
func TestCallsGoToTheLeader(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) func() store.Store{
		"memory": func(t *testing.T) func() store.Store { return inMemory(t, long) },
		"file": func(t *testing.T) func() store.Store {
			directory := t.TempDir()
			return func() store.Store {
				st, err := file.Open(file.Config{Directory: directory, TTL: long})
				require.NoError(t, err)
				return st
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(t))
			told := newTold(w.follower)
			conn := w.dial(told)
			ctx, cancel := context.WithCancel(t.Context())
			checked := make(chan error, 4)
			for i := range cap(checked) {
				go func() {
					var err error
					for err == nil && ctx.Err() == nil {
						err = told.check(ctx, conn, grpc.WaitForReady(i%2 == 0))
					}
					checked <- err
				}()
			}
			for i := range 9 {
				m := w.members[i%3]
				w.elect(m)
				w.answers(conn, m)
				w.resign(m)
			}
			cancel()
			for range cap(checked) {
				require.NoError(t, <-checked)
			}
		})
	}
}

// Without a leader calls fail at once, and those that wait are answered by the next leader.
func TestNoLeader(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	conn := w.dial(grpcresolver.NewBuilder(w.follower, nil))
	const words = `election "database/primary": there is no leader`
	w.fails(conn, words)
	w.elect(w.members[0])
	w.answers(conn, w.members[0])
	w.resign(w.members[0])
	w.fails(conn, words)

	type answer struct {
		address string
		err     error
	}
	answered := make(chan answer, 1)
	go func() {
		address, err := call(t.Context(), conn, grpc.WaitForReady(true))
		answered <- answer{address, err}
	}()
	w.fails(conn, words)
	require.Empty(t, answered)
	w.elect(w.members[1])
	require.Equal(t, answer{address: w.members[1].address}, <-answered)
}

// A leader whose session the store ends does not resign.
func TestLeaderIsLost(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	conn := w.dial(grpcresolver.NewBuilder(w.follower, nil))
	w.elect(w.members[0])
	w.answers(conn, w.members[0])
	w.members[0].store.(*memory.Store).Faults().Expire()
	w.elect(w.members[1])
	w.answers(conn, w.members[1])
}

// Calls wait for the first answer of the store.
func TestBeforeTheFirstAnswer(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	w.elect(w.members[0])
	line := w.store.(*memory.Store).Faults()
	line.Cut()
	conn := w.dial(grpcresolver.NewBuilder(w.follower, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := call(ctx, conn)
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	line.Heal()
	address, err := call(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, w.members[0].address, address)
}

// While the store does not answer, calls go to the leader that was known last.
func TestStoreDoesNotAnswer(t *testing.T) {
	w := newWorld(t, inMemory(t, 500*time.Millisecond))
	conn := w.dial(grpcresolver.NewBuilder(w.follower, nil))
	w.elect(w.members[0])
	w.answers(conn, w.members[0])
	line := w.store.(*memory.Store).Faults()
	line.Cut()
	require.Eventually(t, func() bool { return !w.follower.Fresh() }, patience, time.Millisecond)
	w.resign(w.members[0])
	w.elect(w.members[1])
	address, err := call(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, w.members[0].address, address)
	line.Heal()
	w.answers(conn, w.members[1])
}

// A process that does not lead any more refuses the call of a client that has not heard of that, and the context of a
// call ends with the term.
func TestServerRefuses(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	m := w.members[0]
	c, err := leadership.NewCandidate(m.store, election, m.address, nil)
	require.NoError(t, err)
	defer func() { c.Stop(); <-c.Done() }()
	intercept := whileLeading(c)
	term, err := c.Campaign(t.Context())
	require.NoError(t, err)
	require.NoError(t, term.Acknowledge(t.Context()))
	answer, err := intercept(t.Context(), "request", nil, func(ctx context.Context, request any) (any, error) {
		require.NoError(t, ctx.Err())
		term.End(nil)
		<-ctx.Done()
		return request, context.Cause(ctx)
	})
	require.Equal(t, "request", answer)
	require.ErrorIs(t, err, leadership.ErrResigned)
	_, err = intercept(t.Context(), "request", nil, nil)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.NoError(t, term.Withdraw(t.Context()))
}

// A follower that has ended would not hear of the next leader.
func TestFollowerEnds(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	b := grpcresolver.NewBuilder(w.follower, nil)
	conn := w.dial(b)
	w.elect(w.members[0])
	w.answers(conn, w.members[0])
	w.follower.Stop()
	w.fails(conn, "stopped")
	w.fails(w.dial(b), "stopped")
}

// Calls do not go to the last leader if the address of the next is not known.
func TestAddress(t *testing.T) {
	for words, address := range map[string]func() (string, error){
		"no such host":                           func() (string, error) { return "", errors.New("no such host") },
		"the address function panicked: a value": func() (string, error) { panic("a value") },
		"the address function called runtime.Goexit": func() (string, error) {
			runtime.Goexit()
			return "", nil
		},
		"the address of the leader is empty": func() (string, error) { return "", nil },
	} {
		t.Run(words, func(t *testing.T) {
			w := newWorld(t, inMemory(t, long))
			conn := w.dial(grpcresolver.NewBuilder(w.follower, func(leader leadership.Leader) (string, error) {
				if leader.Value == w.members[1].address {
					return address()
				}
				return leader.Value, nil
			}))
			w.elect(w.members[0])
			w.answers(conn, w.members[0])
			w.resign(w.members[0])
			w.fails(conn, "there is no leader")
			w.elect(w.members[1])
			w.fails(conn, words)
			if words == "the address function called runtime.Goexit" {
				return // it has ended the resolver
			}
			w.resign(w.members[1])
			w.elect(w.members[2])
			w.answers(conn, w.members[2])
		})
	}
}

// The target names the election of the builder's follower.
func TestTarget(t *testing.T) {
	st := inMemory(t, long)()
	defer st.Close()
	for _, c := range []struct{ election, target, words string }{
		{election, target, "there is no leader"},
		{"Nächte %3F?#", "leadership:///" + url.PathEscape("Nächte %3F?#"), "there is no leader"},
		{election, "leadership:///" + url.PathEscape(election), "there is no leader"},
		{election, "leadership:" + election, "there is no leader"},
		{election, "leadership:///database", `target "leadership:///database" is not leadership:///database/primary`},
		{election, "leadership://database/primary", `target "leadership://database/primary" is not leadership:///database/primary`},
		{election, "leadership://host/database/primary", "is not leadership:///database/primary"},
		{election, "leadership:///", "is not leadership:///database/primary"},
	} {
		f, err := leadership.NewFollower(st, c.election, nil)
		require.NoError(t, err)
		conn, err := grpc.NewClient(c.target, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithResolvers(grpcresolver.NewBuilder(f, nil)))
		require.NoError(t, err)
		_, err = call(t.Context(), conn)
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.ErrorContains(t, err, c.words)
		require.NoError(t, conn.Close())
		f.Stop()
		<-f.Done()
	}
	require.PanicsWithValue(t, "grpcresolver: the follower is nil", func() { grpcresolver.NewBuilder(nil, nil) })
}

// A connection that was idle knows who leads now.
func TestIdle(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	conn := w.dial(grpcresolver.NewBuilder(w.follower, nil), grpc.WithIdleTimeout(10*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, m := range w.members {
		w.elect(m)
		w.answers(conn, m)
		for state := conn.GetState(); state != connectivity.Idle; state = conn.GetState() {
			require.True(t, conn.WaitForStateChange(ctx, state))
		}
		w.resign(m)
		require.Eventually(t, func() bool { _, leads := w.follower.Leader(); return !leads }, patience, time.Millisecond)
		_, err := call(ctx, conn)
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.ErrorContains(t, err, "there is no leader")
	}
}

// A stream that has begun goes on when the leader changes.
func TestStreamGoesOn(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	conn := w.dial(grpcresolver.NewBuilder(w.follower, nil))
	w.elect(w.members[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	w.resign(w.members[0])
	w.elect(w.members[1])
	w.answers(conn, w.members[1])
	require.NoError(t, stream.Context().Err())
	cancel()
	_, err = stream.Recv()
	require.Equal(t, codes.Canceled, status.Code(err), "%v", err) // by the client, and by nothing before
}

// Close waits for the goroutine of the resolver, which tells nothing of that.
func TestCloseWaits(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	w.elect(w.members[0])
	called, release := make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	b := grpcresolver.NewBuilder(w.follower, func(leadership.Leader) (string, error) {
		close(called)
		<-release
		returned.Store(true)
		return "", errors.New("none")
	})
	conn := &deafConn{}
	r, err := b.Build(resolver.Target{URL: url.URL{Path: "/" + election}}, conn, resolver.BuildOptions{})
	require.NoError(t, err)
	<-called
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	r.Close()
	require.True(t, returned.Load())
	require.Len(t, conn.errors, 1, "that of the address function")
}

// deafConn is a connection that hears of errors alone.
type deafConn struct {
	resolver.ClientConn
	errors []error
}

func (c *deafConn) ReportError(err error) { c.errors = append(c.errors, err) }

// A closed connection leaves nothing behind, while the follower goes on.
func TestClose(t *testing.T) {
	w := newWorld(t, inMemory(t, long))
	w.elect(w.members[0])
	_, err := w.follower.Wait(t.Context())
	require.NoError(t, err)
	before := goleak.IgnoreCurrent()
	for range 20 {
		conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithResolvers(grpcresolver.NewBuilder(w.follower, nil)))
		require.NoError(t, err)
		address, err := call(t.Context(), conn)
		require.NoError(t, err)
		require.Equal(t, w.members[0].address, address)
		require.NoError(t, conn.Close())
	}
	goleak.VerifyNone(t, before)
	require.NoError(t, w.follower.Err())
}

// With TLS the certificate of a server is that of its address, or of the name that grpc.WithAuthority asks for.
func TestCertificates(t *testing.T) {
	certificates := httptest.NewTLSServer(nil) // it has one for 127.0.0.1 and example.com
	certificates.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certificates.Certificate())
	w := newWorld(t, inMemory(t, long))
	opts := grpc.Creds(credentials.NewServerTLSFromCert(&certificates.TLS.Certificates[0]))
	right, wrong := w.members[0], w.members[1]
	right.address, wrong.address = serve(t, "127.0.0.1:0", opts), serve(t, "localhost:0", opts)
	_, port, err := net.SplitHostPort(wrong.address)
	require.NoError(t, err)
	wrong.address = net.JoinHostPort("localhost", port)
	client := grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, ""))
	b := grpcresolver.NewBuilder(w.follower, nil)
	own, named, other := w.dial(b, client), w.dial(b, client, grpc.WithAuthority("example.com")), w.dial(b, client, grpc.WithAuthority("example.org"))

	w.elect(right)
	w.answers(own, right)
	w.answers(named, right)
	w.fails(other, "example.org")
	w.resign(right)
	w.elect(wrong)
	w.fails(own, "localhost")
}

package etcd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// In a minute of an outage a store dials each endpoint about once a second, whatever happens to the connections.
func TestDialsOfAnOutage(t *testing.T) {
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // a frame of HTTP/2 that sets nothing: to the client library, the server works
	for name, serve := range map[string]func(server net.Conn) error{
		"refused": func(net.Conn) error { return errors.New("connection refused") },
		"closed at once": func(server net.Conn) error {
			go func() { _ = server.Close() }()
			return nil
		},
		"closed after the first answer": func(server net.Conn) error {
			go func() {
				go func() { _, _ = io.Copy(io.Discard, server) }()
				_, _ = server.Write(settings)
				_ = server.Close()
			}()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var dials int
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
					mu.Lock()
					dials++
					flood := dials > 2000
					mu.Unlock()
					if flood {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					client, server := net.Pipe()
					return client, serve(server)
				}
				d, err := newDriver(Config{Endpoints: []string{"a", "b", "c", "d", "e"}, TTL: 4 * time.Second, Dial: dial})
				require.NoError(t, err)
				t.Cleanup(func() { _ = d.Close() })
				d.begin()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for ctx.Err() == nil {
					_, _, err = d.Open(ctx)
					time.Sleep(250 * time.Millisecond)
				}
				require.Error(t, err)
				synctest.Wait()
				mu.Lock()
				n := dials
				mu.Unlock()
				require.Less(t, n, 5*75)
				require.Greater(t, n, 30)
				t.Logf("%d dials", n)
			})
		})
	}
}

// Only an answer of the cluster itself proves that a request was denied, or not carried out. An error from a proxy in
// between might come after the proxy has passed the request on.
func TestWhatAnErrorMeans(t *testing.T) {
	for _, code := range []codes.Code{
		codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.ResourceExhausted, codes.FailedPrecondition,
		codes.InvalidArgument, codes.OutOfRange, codes.Unavailable, codes.Internal, codes.Unknown,
	} {
		err := explain(status.Error(code, "unexpected HTTP status code received from server"))
		require.ErrorIs(t, err, store.ErrUnknownOutcome, code)
		require.NotErrorIs(t, err, store.ErrUnavailable, code)
		require.NotErrorIs(t, err, store.ErrDenied, code)
	}
	for _, denied := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCUserEmpty} {
		require.ErrorIs(t, explain(denied), store.ErrDenied)
	}
	for _, refused := range []error{
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCRequestTooManyRequests,
	} {
		require.ErrorIs(t, explain(refused), store.ErrUnavailable)
		require.IsType(t, engine.Answered(refused), explain(refused), "no outage")
	}
	require.ErrorIs(t, explain(rpctypes.ErrGRPCLeaseNotFound), engine.ErrOver)
	require.ErrorIs(t, explain(rpctypes.ErrGRPCTimeout), store.ErrUnknownOutcome)
	for _, final := range []error{rpctypes.ErrGRPCRequestTooLarge, rpctypes.ErrGRPCCompacted} {
		require.NotErrorIs(t, explain(final), store.ErrUnknownOutcome, "such a request never succeeds")
		require.NotErrorIs(t, explain(final), store.ErrUnavailable)
	}
}

// While connections are made and nothing is answered, an error asks about the port and TLS. An error about a certificate
// does not, nor does a store that has had an answer.
func TestQuestionWhileNothingIsAnswered(t *testing.T) {
	d := watching()
	why := errors.New("error reading server preface: EOF")
	require.Equal(t, why, d.hint(why), "no connection was made")
	d.dialled["member"] = time.Now()
	require.ErrorIs(t, d.hint(why), why)
	require.ErrorContains(t, d.hint(why), "the port for clients")
	require.ErrorContains(t, d.hint(why), "the scheme has to be etcd+tls")
	certificate := errors.New("certificate signed by unknown authority")
	require.Equal(t, certificate, d.hint(certificate))
	d.answered.Store(true)
	require.Equal(t, why, d.hint(why))
}

// The disk's quota is used up: a campaign reports that, and goes on when there is room.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: append(fast, "--quota-backend-bytes=100000")})
	client := operator(t, server.Addrs()...)
	value := string(make([]byte, 100_000))
	eventually(t, func() bool {
		_, err := client.Put(soon(t), "x", value)
		return err != nil
	}, "the quota is used up")
	st := open(t, Config{Endpoints: server.Addrs(), TTL: shortest})
	eventually(t, func() bool {
		_, err := st.Cast(soon(t), "a", "own")
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrDenied)
		return strings.Contains(err.Error(), "space exceeded")
	}, "it says what happens")
}

// The caller closes its client before the store. Everything ends with an error that names the reason, and Close
// returns.
func TestCallerClosesTheClient(t *testing.T) {
	t.Parallel()
	election := newElection()
	client, err := clientv3.New(clientv3.Config{Endpoints: sharedServer(t).Addrs()})
	require.NoError(t, err)
	st := open(t, Config{Client: client, TTL: middling})
	b := castFirst(t, st, election, "own")
	waiter := cast(t, st, election, "waiter")
	c := contend(t, st, election, "candidate")
	eventually(t, func() bool { return len(values(t, st, election)) == 3 }, "all stand")
	pending := make(chan error, 1)
	go func() { _, err := storetest.Leader(soon(t), st, election, &store.Leader{}); pending <- err }()
	eventually(t, func() bool { return st.watches() == 6 }, "all watch") // one, two and two ballots, and the acknowledgement
	require.NoError(t, client.Close())
	lost(t, b)
	lost(t, waiter)
	require.ErrorIs(t, receive(t, pending, "the end of the pending call"), store.ErrClosed)
	require.ErrorIs(t, receive(t, c.Ended, "the end of Run"), store.ErrClosed)
	_, err = st.Cast(soon(t), election, "x")
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorContains(t, err, "client")
	require.Error(t, b.Withdraw(soon(t)), "the ballot is not known to be gone")
	require.NoError(t, st.Close())
	// The keys are removed when the TTL ends.
	castFirst(t, open(t, Config{TTL: middling}), election, "next")
}

// A server speaks HTTP/1.1, as etcd does at its port for peers: the store asks about the port.
func TestPortForPeersIsNamed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	st := open(t, Config{Endpoints: []string{server.Listener.Addr().String()}, TTL: shortest})
	eventually(t, func() bool {
		_, err := st.Ballots(within(t, time.Second), "a")
		require.Error(t, err)
		return strings.Contains(err.Error(), "is this the port for clients")
	}, "it says what happens")
}

// A server that accepts connections and sends nothing is reported as one that does not answer.
func TestSilentServerIsNamed(t *testing.T) {
	t.Parallel()
	address := storetest.SilentServer(t)
	st := open(t, Config{Endpoints: []string{address}, TTL: shortest})
	eventually(t, func() bool {
		_, err := st.Cast(soon(t), "a", "own")
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotContains(t, err.Error(), "use of closed")
		return strings.Contains(err.Error(), address+": i/o timeout")
	}, "it says what happens")
}

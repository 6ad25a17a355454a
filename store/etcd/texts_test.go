package etcd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// gateway is a server in front of the shared one, which can close connections at once instead.
func gateway(t *testing.T) (address string, closes *atomic.Bool, hangUp func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closes = new(atomic.Bool)
	var server storetest.Connections
	ctx, cancel := context.WithCancel(context.Background())
	to := sharedServer(t).Addrs()[0]
	done := make(chan struct{})
	conns := make(chan net.Conn, 1000)
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if closes.Load() {
				_ = conn.(*net.TCPConn).CloseWrite() // alone, so that the client's writes don't fail before its first read
				conns <- conn
				go func() { _, _ = io.Copy(io.Discard, conn); _ = conn.Close() }()
				continue
			}
			behind, err := server.Dial(ctx, "tcp", to)
			if err != nil {
				_ = conn.Close()
				continue
			}
			conns <- conn
			conns <- behind
			go func() { _, _ = io.Copy(behind, conn); _ = behind.Close() }()
			go func() { _, _ = io.Copy(conn, behind); _ = conn.Close() }()
		}
	}()
	hangUp = func() {
		for len(conns) > 0 {
			_ = (<-conns).Close()
		}
	}
	t.Cleanup(func() { _ = listener.Close(); <-done; hangUp(); cancel() })
	return listener.Addr().String(), closes, hangUp
}

// If connections end during the handshake, a store that has never worked asks whether the server speaks TLS. A store
// that has worked does not.
func TestNoQuestionAboutTLSAfterAnAnswer(t *testing.T) {
	t.Parallel()
	address, closes, hangUp := gateway(t)
	st := open(t, etcd.Config{Endpoints: []string{address}})
	castFirst(t, st, newElection(), "own")
	closes.Store(true)
	hangUp()
	fails := func(st *etcd.Store) error {
		var err error
		eventually(t, func() bool {
			_, err = st.Ballots(within(t, time.Second), "a")
			require.Error(t, err)
			return strings.Contains(err.Error(), "error reading server preface")
		}, "it says what happens")
		return err
	}
	require.NotContains(t, fails(st).Error(), "TLS")
	require.ErrorContains(t, fails(open(t, etcd.Config{Endpoints: []string{address}})), "TLS")
}

// A server that speaks HTTP/1.1, as etcd does at its port for peers: the store asks for another port, and not about
// TLS.
func TestPortForPeersIsNamed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	st := open(t, etcd.Config{Endpoints: []string{server.Listener.Addr().String()}})
	eventually(t, func() bool {
		_, err := st.Ballots(within(t, time.Second), "a")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "TLS")
		return strings.Contains(err.Error(), "is this the port for clients")
	}, "it says what happens")
}

// A server that accepts connections and sends nothing is reported as one that does not answer.
func TestSilentServerIsNamed(t *testing.T) {
	t.Parallel()
	address := storetest.SilentServer(t)
	st := open(t, etcd.Config{Endpoints: []string{address}})
	eventually(t, func() bool {
		_, err := st.Cast(soon(t), "a", "own")
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotContains(t, err.Error(), "use of closed")
		require.NotContains(t, err.Error(), "TLS")
		return strings.Contains(err.Error(), "no answer came from "+address)
	}, "it says what happens")
}

// A gateway that answers with an HTTP status denies nothing: only the cluster itself can deny.
func TestGatewayDenies(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusNotFound} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			server := &http.Server{
				Protocols: &protocols,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					w.WriteHeader(code)
					_, _ = io.WriteString(w, "<html>no</html>")
				}),
			}
			done := make(chan struct{})
			go func() { defer close(done); _ = server.Serve(listener) }()
			t.Cleanup(func() { _ = server.Close(); <-done })
			for _, user := range []string{"", "ann"} {
				config := etcd.Config{Endpoints: []string{listener.Addr().String()}}
				if user != "" {
					config.User, config.Password = user, secret
				}
				st := open(t, config)
				_, err = st.Cast(soon(t), "a", "own")
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.NotErrorIs(t, err, store.ErrDenied)
				require.False(t, store.Permanent(err))
				_, err = storetest.Leader(within(t, time.Second), st, "a", &store.Leader{Value: "x"})
				require.NotErrorIs(t, err, store.ErrDenied)
			}
		})
	}
}

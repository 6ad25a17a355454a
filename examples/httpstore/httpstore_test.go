package httpstore

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/examples/httpstore/server"
	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// serve is the variable that makes this program a server, in a process of its own.
const serve = "HTTPSTORE_SERVE"

const ttl = 5 * time.Second // of which a busy machine may lose two

func TestMain(m *testing.M) {
	if os.Getenv(serve) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	go func() { // until the tests are over, however they end
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}()
	panic(http.Serve(listener, server.New(ttl)))
}

// start starts a server, which the end of the test ends, and returns its address.
func start(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serve+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(address)
}

func TestDriver(t *testing.T) {
	whole.Need(t)
	address := start(t)
	drivertest.Run(t, drivertest.Harness{
		TTL:  ttl,
		Open: func(context.Context) (engine.Driver, error) { return newDriver(Config{Address: address, TTL: ttl}) },
		OpenSlow: func(_ context.Context, delay time.Duration) (engine.Driver, error) {
			network := conformance.NewNetwork()
			network.DelayReplies(delay)
			return newDriver(Config{Address: address, TTL: ttl, Dial: network.Dial})
		},
	})
}

// TestAnswerOfAGateway: it says nothing of what the server did.
func TestAnswerOfAGateway(t *testing.T) {
	for _, status := range []int{http.StatusOK, server.Over, server.Gone, server.Void, server.Starting, http.StatusBadGateway} {
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("{}"))
		}))
		defer gateway.Close()
		d, err := newDriver(Config{Address: gateway.Listener.Addr().String()})
		require.NoError(t, err)
		defer d.Close()
		_, err = (&session{driver: d}).Enter(t.Context(), "x", engine.Nonce{}, "value")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
	}
}

// Another module calls conformance.Run, which runs the cases one by one.
func TestConformance(t *testing.T) {
	whole.Need(t)
	h, err := conformance.URL("httpstore://"+start(t)+"/?ttl="+ttl.String(), "suite")
	require.NoError(t, err)
	h.Expiry = ttl + time.Second
	harness.Run(t, h)
}

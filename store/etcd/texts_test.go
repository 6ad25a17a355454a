package etcd_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

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

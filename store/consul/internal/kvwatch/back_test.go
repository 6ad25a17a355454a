package kvwatch

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// The index of the servers goes back, and the read that follows fails. No query waits for the old index: the watch is
// verified at once.
func TestReadFailsAfterTheIndexWentBack(t *testing.T) {
	verified := make(chan struct{}, 100)
	var reads, queries atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "9")
		switch {
		case r.URL.Path == "/v1/txn":
			verified <- struct{}{}
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Query().Has("index") && queries.Add(1) == 1:
			w.Header().Set("X-Consul-Index", "5")
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Has("index"):
			<-r.Context().Done()
		case reads.Add(1) == 1:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer srv.Close()
	life := adapter.NewLifecycle("consul", false, "")
	client, err := agent.New(life, agent.Config{
		Addresses: []string{srv.Listener.Addr().String()}, TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Dial: (&net.Dialer{}).DialContext,
	})
	require.NoError(t, err)
	defer func() { life.Stop(); life.Wait(); client.Close() }()
	all := New(client, "p/", func(string, agent.Entry) bool { return true }, func() {})
	_, err = all.Watch(t.Context(), "p/key", Options{}, func(News) {})
	require.NoError(t, err)
	select {
	case <-verified:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the watch waits for the old index")
	}
}

package kvwatch

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// There are never more queries than allowed. A watch without a query gets one when there is room.
func TestQueriesAreLimited(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	hasQuery := func(queries int) bool {
		all.mu.Lock()
		all.queries = queries
		all.mu.Unlock()
		all.promote()
		all.mu.Lock()
		defer all.mu.Unlock()
		return w.queried
	}
	all.mu.Lock()
	w.known, all.running = true, true // in this test runShared is not
	all.mu.Unlock()
	require.False(t, hasQuery(agent.Queries))
	require.True(t, hasQuery(agent.Queries-1))
	require.Equal(t, agent.Queries, all.queries)
}

// A query goes on without users, since the agent would not notice that it was given up: the next user has the same one. It
// ends with its wait.
func TestQueryOutlivesItsUser(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	all.mu.Lock()
	w.known, w.state.Exists = true, true
	w.start()
	all.mu.Unlock()
	for u := range w.users {
		w.leave(u)
	}
	next := &user{tell: func(News) {}}
	again, _ := all.join(w.key, false, next)
	require.Same(t, w, again)
	require.True(t, w.queried)
	w.leave(next)
	w.client.Life.Stop() // the answer comes
	w.client.Life.Wait()
	require.Empty(t, all.byKey)
	require.Zero(t, all.queries)
}

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
		Dialer: adapter.SystemDialer(),
	})
	require.NoError(t, err)
	defer func() { life.Stop(); life.Wait(); client.Close() }()
	all := New(client, "p/", func(string, agent.Entry) bool { return true }, func() {})
	_, err = all.Watch(t.Context(), "p/key", Options{}, func(News) {})
	require.NoError(t, err)
	select {
	case <-verified:
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the watch waits for the old index")
	}
}

package httpstore

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/examples/httpstore/server"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// Two polls are under way, sent when there was no leader. One tells of a leader. The other was sent after that leader
// had gone, and says that nothing has changed: which is not said of the leader that was told.
func TestNothingHasChangedSinceAnotherVersion(t *testing.T) {
	var told []engine.News
	w := &watch{version: server.Unknown, tell: func(n engine.News) { told = append(told, n) }}
	began := time.Now()
	w.take(server.Answer{Index: 1, States: map[int]server.Answer{0: {}}}, 0, server.Unknown, began)
	leader := server.Answer{Version: 2, Value: []byte("a")}
	w.take(server.Answer{Index: 2, States: map[int]server.Answer{0: leader}}, 0, 0, began.Add(time.Second))
	require.Len(t, told, 2)
	require.Equal(t, "a", told[1].State.Leader.Value)
	w.take(server.Answer{Index: 3}, 0, 0, began.Add(2*time.Second))
	require.Len(t, told, 2, "the leader is right as of a time after its end")
	w.take(server.Answer{Index: 3}, 0, 2, began.Add(3*time.Second))
	require.Equal(t, engine.News{AsOf: began.Add(3 * time.Second)}, told[2])
}

// Another watch of the key has told that there was no leader, as of a time after the leader that a slow answer tells of.
func TestAnswerIsOlderThanAnotherWatchTold(t *testing.T) {
	var reads atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q server.Request
		_ = json.NewDecoder(r.Body).Decode(&q)
		if q.Wait > 0 { // a poll
			<-r.Context().Done()
			return
		}
		a := server.Answer{Index: 7, States: map[int]server.Answer{0: {}}}
		if reads.Add(1) == 1 {
			a = server.Answer{Index: 4, States: map[int]server.Answer{0: {Version: 4, Value: []byte("a")}}}
		}
		w.Header().Set(server.Header, "1")
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer srv.Close()
	d, err := newDriver(Config{Address: srv.Listener.Addr().String()})
	require.NoError(t, err)
	defer d.Close()
	d.mu.Lock()
	d.watches[&watch{key: server.LeaderKey(d.name("x")), index: 6}] = struct{}{}
	d.mu.Unlock()
	var told []engine.News
	_, err = d.WatchLeader(t.Context(), "x", func(n engine.News) { told = append(told, n) })
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.Zero(t, told[0].State.Leader)
	require.EqualValues(t, 2, reads.Load())
}

// A server that stays behind what another watch has told is not asked again and again without a pause.
func TestServerThatStaysBehind(t *testing.T) {
	var reads atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		w.Header().Set(server.Header, "1")
		_ = json.NewEncoder(w).Encode(server.Answer{Index: 4, States: map[int]server.Answer{0: {}}})
	}))
	defer srv.Close()
	d, err := newDriver(Config{Address: srv.Listener.Addr().String(), TTL: 2 * time.Second})
	require.NoError(t, err)
	defer d.Close()
	d.watches[&watch{key: server.LeaderKey(d.name("x")), index: 6}] = struct{}{}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = d.WatchLeader(ctx, "x", func(engine.News) { t.Error("something is told") })
	require.Error(t, err)
	require.LessOrEqual(t, reads.Load(), 1+int64(time.Since(began)/(20*time.Millisecond)))
}

// Requests that come all at once, as after an outage, have a connection each. Those that are not needed any more end, with
// their goroutines.
func TestSpareConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 20
		var come sync.WaitGroup
		come.Add(requests)
		var open atomic.Int64
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/burst" {
				come.Done()
				come.Wait()
			}
			w.Header().Set(server.Header, "1")
			_, _ = io.WriteString(w, "{}")
		})}
		srv.ConnState = func(_ net.Conn, s http.ConnState) {
			open.Add(map[http.ConnState]int64{http.StateNew: 1, http.StateClosed: -1}[s])
		}
		accepted := make(pipes)
		go func() { _ = srv.Serve(accepted) }()
		defer srv.Close()
		d, err := newDriver(Config{Address: "server:1", TTL: ttl, Dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			accepted <- there
			return here, nil
		}})
		require.NoError(t, err)
		defer d.Close()
		var burst sync.WaitGroup
		for range requests {
			burst.Go(func() { _, _ = d.send(t.Context(), d.requests, "burst", server.Request{}) })
		}
		burst.Wait()
		require.EqualValues(t, requests, open.Load())
		for range 8 {
			time.Sleep(ttl / 4)
			require.NoError(t, d.Confirm(t.Context()))
		}
		synctest.Wait()
		require.EqualValues(t, 1, open.Load())
	})
}

// pipes is a listener of the connections that it brings.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

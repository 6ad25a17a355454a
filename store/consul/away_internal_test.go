package consul

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// After an outage of any length the sessions that were given up meanwhile are destroyed before the next one is opened: their
// ballots would block all others. Sessions are tried to be opened all the time, as the engine does it, and few requests are
// sent.
func TestServersAreAwayForLong(t *testing.T) {
	for _, way := range []string{"refuses", "closes", "has no leader", "is silent", "is not dialled"} {
		for _, ttl := range []time.Duration{3 * time.Second, leastSessionTTL} {
			t.Run(fmt.Sprint(way, " ", ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { beAwayFor(t, way, ttl, 100*time.Second) })
			})
		}
	}
}

func beAwayFor(t *testing.T, way string, ttl, outage time.Duration) {
	a := &awayAgent{way: way, destroyed: make(chan time.Time, 1)}
	d, err := newDriver(Config{Addresses: []string{"a"}, TTL: ttl, Dial: a.dial})
	require.NoError(t, err)
	defer a.serving.Wait()
	defer func() { require.NoError(t, d.Close()) }()
	s, _, err := d.Open(t.Context())
	require.NoError(t, err)
	a.id.Store("the next")
	began := time.Now()
	a.away.Store(true)
	require.Error(t, s.Keep(t.Context(), func(engine.Proof) {}))
	require.Error(t, s.End(t.Context(), nil))
	a.requests.Store(0)
	counted := time.Now()
	for time.Since(began) < outage {
		_, _, err := d.Open(t.Context())
		require.Error(t, err)
		time.Sleep(250 * time.Millisecond)
	}
	require.Less(t, float64(a.requests.Load())/time.Since(counted).Seconds(), 10.)
	require.Empty(t, a.destroyed)
	back := time.Now()
	a.away.Store(false)
	_, _, err = d.Open(t.Context())
	require.NoError(t, err)
	require.Less(t, (<-a.destroyed).Sub(back), time.Second)
}

// awayAgent is an agent that answers what opens, confirms and ends a session, unless it is away.
type awayAgent struct {
	way       string // of being away
	away      atomic.Bool
	id        atomic.Value // of the sessions that are created
	requests  atomic.Int64 // and dials
	destroyed chan time.Time
	serving   sync.WaitGroup
}

func (a *awayAgent) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if a.away.Load() && (a.way == "refuses" || a.way == "is not dialled") {
		a.requests.Add(1)
		if a.way == "is not dialled" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	conn, server := net.Pipe()
	a.serving.Go(func() {
		defer server.Close()
		for r := bufio.NewReader(server); ; {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if !a.answer(server, req) {
				return
			}
		}
	})
	return conn, nil
}

// answer answers a request. It reports false if the connection is to be closed.
func (a *awayAgent) answer(w io.Writer, req *http.Request) bool {
	status, text := "200 OK", answerTo(req)
	switch path := req.URL.Path; {
	case a.away.Load():
		a.requests.Add(1)
		switch a.way {
		case "has no leader":
			status, text = "500 Internal Server Error", "No cluster leader"
			if strings.HasPrefix(path, "/v1/agent/") {
				status, text = "200 OK", "" // the agent answers by itself
			}
			if path == "/v1/status/leader" {
				status, text = "200 OK", `""`
			}
		case "is silent":
			return true
		default:
			return false
		}
	case req.URL.Query().Has("index"):
		return true
	case strings.HasSuffix(path, "/create"):
		if id := a.id.Load(); id != nil {
			text = fmt.Sprintf(`{"ID":%q}`, id)
		}
	case strings.HasSuffix(path, "/destroy/id"):
		select {
		case a.destroyed <- time.Now():
		default:
		}
	case strings.HasSuffix(path, "/destroy/stuck"):
		a.requests.Add(1)
		status, text = "500 Internal Server Error", "stuck"
	case strings.HasSuffix(path, "/destroy/next"):
		text = "true"
	}
	_, err := fmt.Fprintf(w, "HTTP/1.1 %s\r\nX-Consul-Index: 1\r\nContent-Length: %d\r\n\r\n%s", status, len(text), text)
	return err == nil || !errors.Is(err, io.ErrClosedPipe)
}

package consul_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tap stands between a store and its agent, sees each request, and can let one come to grief.
type tap struct {
	*httptest.Server
	agent string

	mu    sync.Mutex
	traps []*trap // guarded by mu
	seen  []string
}

// trap is set for one request.
type trap struct {
	matches func(call string) bool
	spring  func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte)
	caught  chan struct{} // closed when it has sprung
}

// newTap returns a tap before the shared server's agent.
func newTap(t *testing.T) *tap {
	t.Helper()
	return newTapBefore(t, sharedServer(t).Addrs()[0])
}

func newTapBefore(t *testing.T, agent string) *tap {
	t.Helper()
	tp := &tap{agent: agent}
	tp.Server = httptest.NewServer(tp)
	t.Cleanup(tp.Close)
	return tp
}

// addr returns the address to give to a store.
func (tp *tap) addr() []string { return []string{tp.Listener.Addr().String()} }

// catch sets a trap for the next request whose method, path, query and body contain all of the parts.
func (tp *tap) catch(spring func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte), parts ...string) *trap {
	t := &trap{spring: spring, caught: make(chan struct{}), matches: func(call string) bool {
		for _, part := range parts {
			if !strings.Contains(call, part) {
				return false
			}
		}
		return true
	}}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.traps = append(tp.traps, t)
	return t
}

// count returns how many requests contained all of the parts.
func (tp *tap) count(parts ...string) int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	n := 0
next:
	for _, call := range tp.seen {
		for _, part := range parts {
			if !strings.Contains(call, part) {
				continue next
			}
		}
		n++
	}
	return n
}

// ServeHTTP implements http.Handler.
func (tp *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.String() + " " + string(body)
	var sprung *trap
	tp.mu.Lock()
	tp.seen = append(tp.seen, call)
	for i, t := range tp.traps {
		if t.matches(call) {
			sprung = t
			tp.traps = append(tp.traps[:i], tp.traps[i+1:]...)
			break
		}
	}
	tp.mu.Unlock()
	if sprung == nil {
		tp.forward(w, r, body)
		return
	}
	defer close(sprung.caught)
	sprung.spring(tp, w, r, body)
}

// forward lets a request through.
func (tp *tap) forward(w http.ResponseWriter, r *http.Request, body []byte) {
	req, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+tp.agent+r.URL.String(), bytes.NewReader(body))
	req.Header = r.Header.Clone()
	resp, err := plain.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// loseReply lets the request through; the connection breaks before the answer.
func loseReply(tp *tap, _ http.ResponseWriter, r *http.Request, body []byte) {
	tp.forward(httptest.NewRecorder(), r, body)
	panic(http.ErrAbortHandler)
}

// loseRequest breaks the connection.
func loseRequest(*tap, http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }

// delay breaks the connection, and carries the request out when it is let go; the channel that it returns then tells
// the status.
func delay(t *testing.T) (spring func(*tap, http.ResponseWriter, *http.Request, []byte), letGo func() int) {
	late := make(chan func() int, 1)
	return func(tp *tap, _ http.ResponseWriter, r *http.Request, body []byte) {
			r = r.Clone(context.WithoutCancel(r.Context()))
			late <- func() int {
				answer := httptest.NewRecorder()
				again, err := http.NewRequest(r.Method, r.URL.String(), http.NoBody)
				require.NoError(t, err)
				again.Header = r.Header.Clone()
				tp.forward(answer, again, body)
				return answer.Code
			}
			panic(http.ErrAbortHandler)
		}, func() int {
			return receive(t, late, "the request")()
		}
}

// answer answers in the agent's place.
func answer(status int, text string) func(*tap, http.ResponseWriter, *http.Request, []byte) {
	return func(_ *tap, w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// hang keeps the request until the client gives up.
func hang(_ *tap, _ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

// fates are what can happen to a message.
var fates = map[string]func(*tap, http.ResponseWriter, *http.Request, []byte){
	"reply": loseReply, "request": loseRequest, "error": answer(500, "rpc error: leadership lost while committing log"),
}

package consul_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// tap stands between a store and its agent, sees each request, and can disturb single ones.
type tap struct {
	*httptest.Server
	storetest.Requests[catch] // method, URL and body

	agent string
	rules []rule // set before the first request
}

// rule disturbs all requests that contain its parts.
type rule struct {
	spring func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte)
	parts  []string
}

// always is catch for all requests. It is called before the first.
func (tp *tap) always(spring func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte), parts ...string) {
	tp.rules = append(tp.rules, rule{spring, parts})
}

// catch waits for one request.
type catch struct {
	spring func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte)
	caught chan struct{} // closed when it has sprung
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

// catch waits for the next request whose method, path, query and body contain all of the parts.
func (tp *tap) catch(spring func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte), parts ...string) *catch {
	c := &catch{spring: spring, caught: make(chan struct{})}
	tp.Await(c, parts...)
	return c
}

// ServeHTTP implements http.Handler.
func (tp *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := tp.Note(r.Method + " " + r.URL.String() + " " + string(body))
	if c == nil {
		for _, rule := range tp.rules {
			if storetest.Mentions(r.Method+" "+r.URL.String()+" "+string(body), rule.parts) {
				rule.spring(tp, w, r, body)
				return
			}
		}
		tp.forward(w, r, body)
		return
	}
	defer close(c.caught)
	c.spring(tp, w, r, body)
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

// delay breaks the connection, and carries the request out when the test releases it. The returned channel then
// receives the status.
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

// answer answers without the agent.
func answer(status int, text string) func(*tap, http.ResponseWriter, *http.Request, []byte) {
	return func(_ *tap, w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// hang keeps the request until the client gives up.
func hang(_ *tap, _ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

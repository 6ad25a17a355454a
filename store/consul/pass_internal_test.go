package consul

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// Only a 200 without content is a pass. A connection that ends before an answer, or within one, proves nothing.
func TestPass(t *testing.T) {
	for _, c := range []struct {
		name, answer string // the bytes of the answer; the connection closes after them
		passes       bool
	}{
		{"200", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
		{"200 until the connection closes", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true},
		{"no answer", "", false},
		{"cut within the status line", "HTTP/1.1 20", false},
		{"cut within the header", "HTTP/1.1 200 OK\r\nContent-", false},
		{"cut before the content", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", false},
		{"cut within chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false},
		{"content", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull", false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", false},
		{"404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					panic(err)
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, c.answer)
			}))
			defer srv.Close()
			d, err := newDriver(Config{Addresses: []string{srv.Listener.Addr().String()}, TTL: leastTTL})
			require.NoError(t, err)
			defer d.Close()
			err = d.pass(t.Context(), "check")
			if c.passes {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
		})
	}
}

// The address is that of several agents: passes reach one that does not have the check. The error says so that the session
// ends with.
func TestPassesReachAnotherAgent(t *testing.T) {
	virtual(t, leastTTL, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "7")
		if check, is := strings.CutPrefix(r.URL.Path, "/v1/agent/check/update/"); is {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "Unknown check ID \""+check+"\". Ensure that the check ID is passed, not the check name.")
			return
		}
		_, _ = io.WriteString(w, answerTo(r))
	}, func(t *testing.T, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		err = s.Keep(t.Context(), func(engine.Proof) { t.Error("it counts") })
		require.ErrorContains(t, err, oneAgent)
		require.NotContains(t, err.Error(), "not a Consul agent")
		require.NoError(t, s.End(t.Context(), nil))
	})
}

// A session is created at another agent than its check.
func TestSessionAtAnotherAgent(t *testing.T) {
	virtual(t, leastTTL, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/create") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "apply failed: Missing check 'leadership-1' registration")
			return
		}
		_, _ = io.WriteString(w, answerTo(r))
	}, func(t *testing.T, d *driver) {
		_, _, err := d.Open(t.Context())
		require.ErrorContains(t, err, oneAgent)
	})
}

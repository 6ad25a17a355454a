package consul

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

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

package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store"
)

// causes says in plain words why requests have no answer. The first row counts that an error matches, by its type or
// its text: client libraries keep the text alone. A refused connection is often wrapped in a deadline that has passed.
var causes = []struct {
	words string
	kinds []error
	texts []string
}{
	{"connection refused", []error{syscall.ECONNREFUSED}, []string{"connection refused"}},
	{"the server's name is not known", nil, []string{"no such host", "server misbehaving"}},
	{"the server can't be reached", []error{syscall.EHOSTUNREACH, syscall.ENETUNREACH},
		[]string{"no route to host", "network is unreachable"}},
	{"the certificate is refused", nil, []string{"x509:", "tls: bad certificate", "tls: unknown certificate", "certificate required"}},
	{"the servers have no leader", nil, []string{"no leader", "no cluster leader", "leader changed", "raft leader not found"}},
	{"the server closed the connection",
		[]error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE},
		[]string{"server closed", "eof", "connection reset", "broken pipe", "connection is closing", "transport is closing",
			"connection closed", "closed network connection", "goaway", "server stopped"}},
	{"no answer in time", []error{context.DeadlineExceeded, os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
		[]string{"timeout", "timed out", "deadline exceeded", "no answer", "did not answer", "not properly respond"}},
}

// cause says in plain words why a request has no answer. What no row knows is said as it is, without ports, which
// differ from one attempt to the next.
func cause(err error) string {
	text := strings.ToLower(err.Error())
	for _, c := range causes {
		for _, kind := range c.kinds {
			if errors.Is(err, kind) {
				return c.words
			}
		}
		for _, t := range c.texts {
			if strings.Contains(text, t) {
				return c.words
			}
		}
	}
	said := err.Error()
	for _, kind := range []error{store.ErrUnknownOutcome, store.ErrUnavailable} {
		said = strings.TrimPrefix(said, kind.Error()+": ")
	}
	return redact.Shorten(ports.ReplaceAllString(said, "$1"))
}

// ports are those of addresses, but no times of day.
var ports = regexp.MustCompile(`([\w\]]):\d{3,5}\b`)

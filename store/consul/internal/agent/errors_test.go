package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// What each kind of answer means.
func TestWhatAnswersMean(t *testing.T) {
	const lacks = "token lacks permission 'key:write' on \"x\""
	unavailable, unknown := store.ErrUnavailable, store.ErrUnknownOutcome
	denied, invalid := store.ErrDenied, store.ErrInvalid
	for _, c := range []struct {
		code    int // 0: of a transaction
		text    string
		odd     bool // besides, it is no answer of Consul's
		refused bool // besides, the settings might be wrong
		means   error
	}{
		{code: 403, text: "Permission denied: " + lacks, means: denied},
		{code: 403, text: "rpc error: " + lacks, means: denied},
		{code: 500, text: "ACL not found", means: denied},
		{code: 403, text: "rpc error making call: ACL not found", means: denied},
		{code: 403, text: "Permission denied", means: denied},
		{code: 403, text: "ACL system must be bootstrapped before making any requests that require authorization: ACL not found",
			refused: true, means: unavailable},
		{text: "Permission denied", means: denied},
		{code: 403, text: "Permission denied: token with AccessorID 'primary-dc-down' lacks permission", refused: true, means: unavailable},
		{code: 403, text: "Permission denied: the ACL system must be bootstrapped", refused: true, means: unavailable},
		{code: 403, text: "<html>Permission denied</html>", odd: true, means: unknown},
		{code: 403, text: "rate limit", odd: true, means: unknown},
		{code: 403, text: "", odd: true, means: unknown},
		{code: 413, text: " <html>Request Entity Too Large", odd: true, means: unknown},
		{code: 400, text: "Client sent an HTTP request to an HTTPS server.", refused: true, means: unavailable},
		{code: 500, text: "No path to datacenter", refused: true, means: unavailable},
		{code: 500, text: "cross datacenter lock", means: invalid},
		{code: 400, text: "Invalid query parameter: \"ns\" is a Consul Enterprise feature", means: invalid},
		{code: 500, text: "Invalid Session TTL '10000000000'", means: invalid},
		{code: 413, text: "Request body(1000 bytes) too large", means: invalid},
		{code: 400, text: "Value for key \"x\" is too large", means: invalid},
		{code: 429, text: "", means: unavailable},
		{code: 500, text: "rpc error: rate limit exceeded, try again later", means: unavailable},
		{code: 500, text: "too many concurrent connections", means: unavailable},
		{code: 500, text: "No cluster leader", means: unavailable},
		{text: "No cluster leader", means: unavailable},
		{code: 404, text: "", odd: true, means: unknown},
		{code: 500, text: "rpc error: remote error: tls: bad certificate", means: unknown}, // of the agent's own request
		{code: 500, text: "leadership lost while committing log", means: unknown},
	} {
		var answer error = api.StatusError{Code: c.code, Body: c.text}
		if c.code == 0 {
			answer = errors.New("Failed request: " + c.text)
		}
		err := newClient(t).Explain(answer)
		requireOnly(t, err, c.means)
		require.Equal(t, c.odd, errors.Is(err, ErrOdd), "%v", err)
		require.Equal(t, c.refused, errors.Is(err, ErrRefused), "%v", err)
	}
}

// What it means that there is no answer, or that its meaning is known already.
func TestWhatOtherErrorsMean(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct{ err, want error }{
		{fmt.Errorf("%w: %w", errNoConnection, context.DeadlineExceeded), store.ErrUnavailable},
		{refused, store.ErrUnavailable},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, store.ErrUnknownOutcome},
		{context.DeadlineExceeded, store.ErrUnknownOutcome},
		{fmt.Errorf("%w: known", store.ErrDenied), store.ErrDenied},
		{Odd("known"), store.ErrUnknownOutcome},
	} {
		requireOnly(t, newClient(t).Explain(c.err), c.want)
	}
	require.True(t, Refusing(fmt.Errorf("a caller's client: %w", refused)))
}

// If one side speaks TLS in a way that the other does not, the settings are wrong, unless they have worked.
func TestSettingsThatDoNotMatch(t *testing.T) {
	for _, err := range []error{
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, x509.CertificateInvalidError{},
		tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		errors.New("http: server gave HTTP response to HTTPS client"), errors.New("remote error: tls: bad certificate"),
		api.StatusError{Code: 400, Body: "Client sent an HTTP request to an HTTPS server."},
	} {
		err = newClient(t).Explain(err)
		requireOnly(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, ErrRefused)
	}
}

// An agent is gone if it refuses connections; of several, if no other can be reached.
func TestWhichAgentsAreGone(t *testing.T) {
	for _, c := range []struct {
		a, b error
		gone bool
	}{{syscall.ECONNREFUSED, syscall.ECONNREFUSED, true}, {syscall.ECONNREFUSED, syscall.EHOSTUNREACH, true}, {syscall.EHOSTUNREACH, syscall.ENETUNREACH, false}} {
		d := &dialer{addresses: []string{"a", "b"}, names: adapter.NewDialer(func(_ context.Context, _, address string) (net.Conn, error) {
			return nil, map[string]error{"a": c.a, "b": c.b}[address]
		}, nil)}
		_, err := d.connect(t.Context(), "tcp", "")
		require.Equal(t, c.gone, Refusing(err))
		require.Equal(t, c.gone, Refusing(newClient(t).Explain(err)))
	}
}

func newClient(t *testing.T) *Client {
	life := adapter.NewLifecycle("consul", false, "")
	t.Cleanup(life.Stop)
	c, err := New(life, Config{Addresses: []string{"a"}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return c
}

// requireOnly checks that an error is of one kind on which callers decide.
func requireOnly(t *testing.T, err, want error) {
	t.Helper()
	kinds := []error{store.ErrDenied, store.ErrInvalid, store.ErrUnavailable, store.ErrUnknownOutcome}
	is := slices.DeleteFunc(kinds, func(kind error) bool { return !errors.Is(err, kind) })
	require.Equal(t, []error{want}, is, "%v", err)
}

// TestCloseFindsLostConnections: net/http might have lost one, and Close closes it all the same.
func TestCloseFindsLostConnections(t *testing.T) {
	ours, agents := net.Pipe()
	t.Cleanup(func() { _ = agents.Close() })
	c, err := New(adapter.NewLifecycle("consul", false, ""), Config{
		Addresses: []string{"a"}, TTL: time.Second,
		Dialer: adapter.NewDialer(func(context.Context, string, string) (net.Conn, error) { return ours, nil }, nil),
	})
	require.NoError(t, err)
	_, err = c.dialer.connect(t.Context(), "tcp", "")
	require.NoError(t, err)
	c.Close()
	_, err = agents.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Empty(t, c.dialer.open)
}

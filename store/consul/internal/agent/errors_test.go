package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// What each kind of answer means, to a store that has not worked yet and to one that has.
func TestWhatAnswersMean(t *testing.T) {
	const lacks = "token lacks permission 'key:write' on \"x\""
	unavailable, unknown := store.ErrUnavailable, store.ErrUnknownOutcome
	denied, invalid := store.ErrDenied, store.ErrInvalid
	for _, c := range []struct {
		code    int // 0: of a transaction
		text    string
		odd     bool // besides, it is no answer of Consul's
		atFirst error
		later   error // the same if it is nil
	}{
		{code: 403, text: "Permission denied: " + lacks, atFirst: denied},
		{code: 403, text: "rpc error: " + lacks, atFirst: denied},
		{code: 500, text: "ACL not found", atFirst: denied},
		{text: "Permission denied", atFirst: denied},
		{code: 403, text: "Permission denied: token with AccessorID 'primary-dc-down' lacks permission", atFirst: unavailable},
		{code: 403, text: "Permission denied: the ACL system must be bootstrapped", atFirst: unavailable},
		{code: 403, text: "<html>Permission denied</html>", odd: true, atFirst: unknown},
		{code: 403, text: "rate limit", odd: true, atFirst: unknown},
		{code: 413, text: " <html>Request Entity Too Large", odd: true, atFirst: unknown},
		{code: 400, text: "Client sent an HTTP request to an HTTPS server.", atFirst: unavailable, later: unknown},
		{code: 500, text: "No path to datacenter", atFirst: unavailable},
		{code: 500, text: "cross datacenter lock", atFirst: invalid},
		{code: 400, text: "Invalid query parameter: \"ns\" is a Consul Enterprise feature", atFirst: invalid},
		{code: 500, text: "Invalid Session TTL '10000000000'", atFirst: invalid},
		{code: 413, text: "Request body(1000 bytes) too large", atFirst: invalid},
		{code: 400, text: "Value for key \"x\" is too large", atFirst: invalid},
		{code: 429, text: "", atFirst: unavailable},
		{code: 500, text: "rpc error: rate limit exceeded, try again later", atFirst: unavailable},
		{code: 500, text: "too many concurrent connections", atFirst: unavailable},
		{code: 500, text: "No cluster leader", atFirst: unavailable},
		{text: "No cluster leader", atFirst: unavailable},
		{code: 404, text: "", odd: true, atFirst: unknown},
		{code: 500, text: "rpc error: remote error: tls: bad certificate", atFirst: unknown}, // of the agent's own request
		{code: 500, text: "leadership lost while committing log", atFirst: unknown},
	} {
		for _, worked := range []bool{false, true} {
			var answer error = api.StatusError{Code: c.code, Body: c.text}
			if c.code == 0 {
				answer = errors.New("Failed request: " + c.text)
			}
			want := c.atFirst
			if worked && c.later != nil {
				want = c.later
			}
			err := newClient(t, worked).Explain(answer)
			requireOnly(t, err, want)
			if want != c.later {
				require.Equal(t, c.odd, IsOdd(err), "%v", err)
			}
		}
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
		requireOnly(t, newClient(t, false).Explain(c.err), c.want)
	}
	refusal := &Refusal{}
	require.Same(t, refusal, newClient(t, false).Explain(refusal))
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
		requireOnly(t, newClient(t, false).Explain(err), store.ErrUnavailable)
		require.ErrorIs(t, newClient(t, false).Explain(err), ErrMismatch)
		c := newClient(t, false)
		require.NoError(t, c.Explain(nil))
		require.NotErrorIs(t, c.Explain(err), ErrMismatch)
	}
}

// An agent is gone if it refuses connections; of several, all must.
func TestWhichAgentsAreGone(t *testing.T) {
	for _, c := range []struct {
		b    error
		gone bool
	}{{syscall.ECONNREFUSED, true}, {syscall.EHOSTUNREACH, false}} {
		d := &dialer{addresses: []string{"a", "b"}}
		d.dial = func(_ context.Context, _, address string) (net.Conn, error) {
			return nil, map[string]error{"a": syscall.ECONNREFUSED, "b": c.b}[address]
		}
		_, err := d.open(t.Context(), "tcp", "")
		require.Equal(t, c.gone, Refusing(err))
		require.Equal(t, c.gone, Refusing(newClient(t, true).Explain(err)))
	}
}

func newClient(t *testing.T, worked bool) *Client {
	life := adapter.NewLifecycle("consul", false, "")
	t.Cleanup(life.Stop)
	c, err := New(life, Config{Addresses: []string{"a"}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	c.worked.Store(worked)
	return c
}

// requireOnly checks that an error is of one kind on which callers decide.
func requireOnly(t *testing.T, err, want error) {
	t.Helper()
	kinds := []error{store.ErrDenied, store.ErrInvalid, store.ErrUnavailable, store.ErrUnknownOutcome}
	is := slices.DeleteFunc(kinds, func(kind error) bool { return !errors.Is(err, kind) })
	require.Equal(t, []error{want}, is, "%v", err)
}

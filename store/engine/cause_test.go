package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestOutageIsLogged with its cause in plain words, without the ports that differ each time.
func TestOutageIsLogged(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2181}, Err: err}
	}
	const (
		refused     = "connection refused"
		late        = "no answer in time"
		closed      = "the server closed the connection"
		unreachable = "the server can't be reached"
		leaderless  = "the servers have no leader"
	)
	for _, c := range []struct {
		err   error
		words string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), refused},
		{errors.New(`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:2379: connect: connection refused"`), refused},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, dial(syscall.ECONNREFUSED)), refused},
		{context.DeadlineExceeded, late},
		{os.ErrDeadlineExceeded, late},
		{dial(syscall.ETIMEDOUT), late},
		{errors.New("read tcp 127.0.0.1:40312->127.0.0.1:2181: i/o timeout"), late},
		{errors.New("no answer for 10s"), late},
		{errors.New("net/http: request canceled (Client.Timeout exceeded while awaiting headers)"), late},
		{errors.New("net/http: TLS handshake timeout"), late},
		{errors.New("etcdserver: request timed out"), late},
		{errors.New("rpc error: code = Unavailable desc = keepalive ping failed to receive ACK within timeout"), late},
		{io.EOF, closed},
		{io.ErrUnexpectedEOF, closed},
		{syscall.ECONNRESET, closed},
		{syscall.EPIPE, closed},
		{net.ErrClosed, closed},
		{errors.New("http: server closed idle connection"), closed},
		{errors.New("read tcp 127.0.0.1:40312->127.0.0.1:8500: read: connection reset by peer"), closed},
		{errors.New("rpc error: code = Unavailable desc = error reading from server: EOF"), closed},
		{errors.New("rpc error: code = Unavailable desc = transport is closing"), closed},
		{errors.New("zk: connection closed"), closed},
		{dial(syscall.EHOSTUNREACH), unreachable},
		{errors.New("dial tcp 10.0.0.1:2181: connect: network is unreachable"), unreachable},
		{&net.DNSError{Err: "no such host", Name: "x"}, "the server's name is not known"},
		{errors.New("tls: failed to verify certificate: x509: certificate has expired"), "the certificate is refused"},
		{errors.New("rpc error: code = Unavailable desc = etcdserver: no leader"), leaderless},
		{errors.New("No cluster leader"), leaderless},
		{errors.New("10.0.0.1:2181: the disk of [::1]:40312 is full at 10:30"), "10.0.0.1: the disk of [::1] is full at 10:30"},
	} {
		for _, kind := range []error{store.ErrUnavailable, store.ErrUnknownOutcome} {
			require.Equal(t, c.words, cause(fmt.Errorf("%w: %w", kind, c.err)), "%v", c.err)
		}
	}
	var log lines
	inOutage(t, &log, func(t *testing.T, s *scene, _ *ballot, entry *request) {
		entry.fail(fmt.Errorf("%w: %w", store.ErrUnavailable, dial(syscall.ECONNREFUSED)))
		time.Sleep(time.Minute)
		require.Equal(t, `level=WARN msg="the service does not answer" store=test:// cause="connection refused"`+"\n", log.String())
		s.find("Entry").shows(State{Token: 1})
		synctest.Wait()
		require.Equal(t, 2, log.count(), log.String())
	})
}

package etcd

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/peer"
)

// If a request has no answer, the store leaves only connections that are older than the request.
func TestNewConnectionOwesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().String()
	d := &driver{config: Config{TTL: 4 * time.Second, Dial: (&net.Dialer{}).DialContext}, connections: map[string]*connection{}}
	before := time.Now()
	conn, err := d.dial(context.Background(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	server, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	member := &peer.Peer{Addr: conn.RemoteAddr()}

	d.disconnect(member, before)
	require.NoError(t, conn.SetDeadline(time.Time{}), "it is open")
	for range 2 {
		since := time.Now()
		_, err = server.Write([]byte("an answer"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 100))
		require.NoError(t, err)
		d.disconnect(member, since)
		require.NoError(t, conn.SetDeadline(time.Time{}), "it has answered since")
	}
	d.disconnect(member, time.Now())
	require.ErrorIs(t, conn.SetDeadline(time.Time{}), net.ErrClosed, "it has been silent since")
}

// A connection that the store closed says that no answer came, also if the caller's Dial returned a pipe.
func TestClosedConnectionSaysThatNoAnswerCame(t *testing.T) {
	pipe, other := net.Pipe()
	t.Cleanup(func() { _ = other.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	tcp, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	for _, conn := range []net.Conn{pipe, tcp} {
		c := &connection{Conn: conn, dialled: time.Now()}
		require.NoError(t, c.Close())
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, errNoAnswer)
		_, err = c.Write(make([]byte, 1))
		require.ErrorIs(t, err, errNoAnswer)
	}
}

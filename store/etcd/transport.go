package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// dialPause is the time between two dials, once each endpoint has been dialled three times in a row. The client library has
// a pause of its own for each endpoint, and none if a member closes each connection soon after it has answered
// (TestDialsOfAnOutage).
const dialPause = 250 * time.Millisecond

// awaitDial waits until it is time for the next dial. Each dial takes a turn. Turns that were not taken may be taken later: at
// most three for each endpoint.
func (d *driver) awaitDial(ctx context.Context) {
	d.mu.Lock()
	now, spare := time.Now(), time.Duration(3*d.endpoints)*dialPause
	if full := now.Add(-spare); d.nextDial.Before(full) {
		d.nextDial = full
	}
	d.nextDial = d.nextDial.Add(dialPause)
	wait := d.nextDial.Sub(now)
	d.mu.Unlock()
	if wait > 0 {
		adapter.PauseFor(ctx, wait)
	}
}

// dial opens a connection for the client library.
func (d *driver) dial(ctx context.Context, address string) (net.Conn, error) {
	d.awaitDial(ctx)
	conn, err := d.config.dialer.Dial(ctx, address)
	if err != nil {
		d.notConnected(ctx, fmt.Errorf("%s: %w", address, err))
		return nil, err
	}
	d.config.dialer.Leave(address, conn.RemoteAddr()) // the next connection goes to another address of the name
	c := newConnection(conn, max(d.limit(), time.Second))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connections[address] = c
	return c, nil
}

// notConnected records why there is no connection. If the client library has given the attempt up, an earlier reason says
// more, and stays.
func (d *driver) notConnected(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		d.troubled(err)
	}
}

// limit is how long a member may take to answer: a sixth of the TTL, or a quarter if there is one endpoint only. The limit
// counts from when a request is sent on an open connection. If the answer is late, the store leaves the member: it closes
// the connection, so that all that waits for the member's answers goes to another one at once. The client library would
// wait for 15 s, and the lease would end (TestSilentMemberIsLeft).
//
//   - A renewal has this limit (renew.go).
//   - The stream of watches is asked for a sign of life each twelfth of the TTL (stream.go).
//   - Any other request may take a second at least: a busy cluster often does (client.go).
func (d *driver) limit() time.Duration {
	if d.endpoints == 1 {
		return d.config.TTL / 4
	}
	return d.config.TTL / 6
}

// errLate says that a member did not answer within the limit.
var errLate = errors.New("the member did not answer in time")

// connection is one that records when data last came over it. If nothing comes for the limit after it was made, it is
// closed: a member that hangs accepts connections, and the client library would wait for a TTL.
type connection struct {
	net.Conn
	dialled time.Time
	silent  *time.Timer  // closes it
	heard   atomic.Int64 // nanoseconds from dialled, by the monotonic clock; 0 if nothing has come
}

func newConnection(conn net.Conn, limit time.Duration) *connection {
	c := &connection{Conn: conn, dialled: time.Now()}
	c.silent = time.AfterFunc(limit, func() {
		if c.heard.Load() == 0 {
			_ = conn.Close()
		}
	})
	return c
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.silent.Stop()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.dialled)))
	}
	return n, c.explain(err)
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.explain(err)
}

// connectionTo returns the connection to a member; nil if the store did not dial it.
func (d *driver) connectionTo(member *peer.Peer) *connection {
	if member == nil || member.Addr == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.connections {
		if c.RemoteAddr().String() == member.Addr.String() {
			return c
		}
	}
	return nil
}

// disconnect closes the connection to a member that owes an answer, if nothing has come over it since that time. A
// connection that was dialled later owes nothing: then since.Sub(dialled) is negative, and heard never is.
func (d *driver) disconnect(member *peer.Peer, since time.Time) {
	if c := d.connectionTo(member); c != nil && c.heard.Load() < int64(since.Sub(c.dialled)) {
		_ = c.Close()
	}
}

// errNoAnswer is why a connection was closed on this side.
var errNoAnswer = errors.New("no answer came")

// explain gives the reason why a connection was closed on this side: the member at its other end was silent
// (TestSilentServerIsNamed).
func (c *connection) explain(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%w from %s", errNoAnswer, c.RemoteAddr())
	}
	return err
}

// security is TLS by the store's settings. The client library's own expects every server to have the name of its
// endpoint, whatever the settings say (TestTLS). What fails is told with the endpoint (TestTLSMismatch).
type security struct {
	credentials.TransportCredentials
	driver *driver
}

// ClientHandshake implements credentials.TransportCredentials.
func (c security) ClientHandshake(ctx context.Context, endpoint string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ClientHandshake(ctx, cmp.Or(c.driver.config.TLS.ServerName, endpoint), conn)
	if err != nil {
		c.driver.notConnected(ctx, fmt.Errorf("%s: authentication handshake failed: %w", endpoint, err))
		return nil, nil, err
	}
	return alertable{secured, c.driver}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c security) Clone() credentials.TransportCredentials {
	return security{c.TransportCredentials.Clone(), c.driver}
}

// alertable is a connection over which the server might still send the reason for a refusal: with TLS 1.3 it sees the
// client's certificate after the client's part of the handshake.
type alertable struct {
	net.Conn
	driver *driver
}

// Read implements net.Conn.
func (c alertable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if isAlert(err) {
		c.driver.troubled(fmt.Errorf("%s: %w", c.RemoteAddr(), err))
	}
	return n, err
}

// isAlert reports whether an error is what the other side said in TLS.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// troubled remembers why there is no answer; nil says that there was one.
func (d *driver) troubled(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.worked = d.worked || err == nil
	switch {
	case d.config.Client != nil || d.worked:
	case speaksHTTP1(err):
		err = fmt.Errorf("%w; the server speaks HTTP/1.1: is this the port for clients, 2379 by default?", err)
	case looksMismatched(err):
		err = adapter.HintTLS(err, "etcd", d.config.TLS != nil)
	}
	if err == nil || !isAlert(d.trouble) { // whose consequences say less
		d.trouble = err
	}
}

// speaksHTTP1 reports whether an error shows that the server answered in HTTP/1.1, as on etcd's port for peers
// (TestPortForPeersIsNamed). The client library's error is text. A TLS server does not answer the client's first bytes
// so.
func speaksHTTP1(err error) bool {
	return err != nil && strings.Contains(err.Error(), "looked like an HTTP/1.1 header")
}

// looksMismatched reports whether an error looks as if one side spoke TLS and the other side did not. The client library's
// errors are text.
func looksMismatched(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	if strings.Contains(text, "error reading server preface") {
		return !strings.Contains(text, errNoAnswer.Error())
	}
	_, alien, _ := strings.Cut(text, "authentication handshake failed")
	return strings.Contains(alien, "EOF") || strings.Contains(alien, "reset by peer") ||
		strings.Contains(alien, "does not look like a TLS handshake")
}

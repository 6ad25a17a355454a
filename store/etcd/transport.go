package etcd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"google.golang.org/grpc/peer"
)

// dial opens a connection for the client library. An endpoint is dialled again a second after the connection before at the
// earliest: the library has no pause of its own if a member closes each connection soon after it has answered
// (TestDialsOfAnOutage). A member that hangs accepts connections, and the library would wait for a TTL: if nothing comes for
// the limit, the first read fails.
func (d *driver) dial(ctx context.Context, address string) (net.Conn, error) {
	d.mu.Lock()
	next := d.dialled[address].Add(time.Second)
	d.mu.Unlock()
	adapter.PauseFor(ctx, time.Until(next))
	conn, err := d.config.dialer.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	d.config.dialer.Leave(address, conn.RemoteAddr()) // the next connection goes to another address of the name
	c := &connection{Conn: conn, dialled: time.Now()}
	_ = c.SetReadDeadline(c.dialled.Add(max(d.limit(), time.Second)))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dialled[address] = c.dialled
	return c, nil
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

// connection is one that records when data last came over it.
type connection struct {
	net.Conn
	dialled time.Time
	heard   atomic.Int64 // nanoseconds from dialled, by the monotonic clock; 0 if nothing has come
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.heard.Swap(int64(time.Since(c.dialled))) == 0 {
		_ = c.SetReadDeadline(time.Time{}) // dial has set one
	}
	return n, err
}

// Write implements net.Conn. It leaves an error to Read, which first returns what the member has sent before it hung up, such
// as the reason why it refuses a certificate (TestTLSMismatch).
func (c *connection) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
	}
	return len(p), nil
}

// RemoteAddr implements net.Conn.
func (c *connection) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

// remote is an address that tells connectionTo which connection a request was sent over.
type remote struct {
	net.Addr
	connection *connection
}

// connectionTo returns the connection to a member; nil if the store did not dial it.
func connectionTo(member *peer.Peer) *connection {
	if member == nil {
		return nil
	}
	r, _ := member.Addr.(remote)
	return r.connection
}

// disconnect closes the connection to a member that owes an answer, if nothing has come over it since that time. A
// connection that was dialled later owes nothing: then since.Sub(dialled) is negative, and heard never is.
func disconnect(member *peer.Peer, since time.Time) {
	if c := connectionTo(member); c != nil && c.heard.Load() < int64(since.Sub(c.dialled)) {
		_ = c.Close()
	}
}

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// dialer opens connections to the first agent that accepts one, beginning with the one that did last.
type dialer struct {
	addresses []string
	names     *adapter.Dialer
	tls       *tls.Config
	ttl       time.Duration

	next atomic.Int64 // the index of the address to begin with

	dialling sync.WaitGroup // one is added under mu while closed is false

	mu     sync.Mutex
	closed bool                  // guarded by mu, as is open
	open   map[*tracked]struct{} // the connections that are open
}

// dialLimit bounds a dial, since net/http goes on with one that its request has given up. The only agent has a TTL, if
// that is longer.
const dialLimit = 3 * time.Second

// connect dials. The address is that of the request's URL, which says nothing. net/http goes on with a dial that its request
// has given up, for dialLimit.
func (d *dialer) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errNoConnection
	}
	d.dialling.Add(1)
	d.mu.Unlock()
	defer d.dialling.Done()
	var errs []error
	for range d.addresses {
		at := d.next.Load()
		conn, err := d.openOne(ctx, at)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", d.addresses[at], err))
		if ctx.Err() != nil {
			break
		}
		d.skip(at)
	}
	return nil, fmt.Errorf("%w: %w", errNoConnection, errors.Join(errs...))
}

// errNoConnection says that no request was sent.
var errNoConnection = errors.New("no connection")

// skip moves from the address with this index, which does not serve, to the next one. It reports false if that was done
// already.
func (d *dialer) skip(at int64) bool {
	return d.next.CompareAndSwap(at, (at+1)%int64(len(d.addresses)))
}

func (d *dialer) openOne(ctx context.Context, at int64) (net.Conn, error) {
	address := d.addresses[at]
	limit := dialLimit
	if len(d.addresses) == 1 {
		limit = max(limit, d.ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := d.names.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		at := conn.RemoteAddr()
		if conn, err = adapter.Secure(ctx, conn, d.tls, address); err != nil {
			d.names.Leave(address, at)
			return nil, err
		}
	}
	c := &tracked{Conn: conn, dialer: d, at: at}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[*tracked]struct{}{}
	}
	d.open[c] = struct{}{}
	return c, nil
}

// close closes all connections, after endDials has ended the dials. net/http loses a connection that it finds too old while
// its idle connections are closed, and closes others in goroutines that nothing waits for.
func (d *dialer) close(endDials func()) {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	endDials()
	d.dialling.Wait()
	d.mu.Lock()
	open := slices.Collect(maps.Keys(d.open))
	d.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// tracked is a connection with the index of its address.
type tracked struct {
	net.Conn
	dialer *dialer
	at     int64
	asked  atomic.Bool // something was written
}

// Read implements net.Conn. An agent that takes no more connections from this address answers before it is asked, and hangs
// up. If no request uses the connection at that moment, net/http would print the answer to the standard error.
func (c *tracked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.asked.Load() {
		return 0, fmt.Errorf("%w: it says %s", errNoConnection, OneLine(string(p[:n])))
	}
	return n, err
}

// Write implements net.Conn.
func (c *tracked) Write(p []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	err := c.Conn.Close()
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	delete(c.dialer.open, c) // after it was closed: close closes what is open
	return err
}

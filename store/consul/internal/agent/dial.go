package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// dialer opens connections to the first agent that accepts one, beginning with the one that did last. It keeps track
// of them, so that none is left when the store is closed.
type dialer struct {
	addresses []string
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	tls       *tls.Config
	ttl       time.Duration

	mu    sync.Mutex
	next  int                   // guarded by mu, as are all below: the index of the address to begin with
	conns map[*tracked]struct{} // nil once they have been closed
}

// dialLimit bounds a dial, since net/http goes on with one that its request has given up. The only agent has a TTL, if
// that is longer.
const dialLimit = 3 * time.Second

// open dials. The address is that of the request's URL, which says nothing. net/http goes on with a dial that its request
// has given up; closeIdle ends it.
func (d *dialer) open(ctx context.Context, network, _ string) (net.Conn, error) {
	var errs []error
	for range d.addresses {
		at := d.present()
		conn, err := d.openOne(ctx, network, at)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", d.addresses[at], err))
		if ctx.Err() != nil {
			break
		}
		d.pass(at)
	}
	why := errNoConnection
	if !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, syscall.ECONNREFUSED) }) {
		why = errAllRefuse
	}
	return nil, fmt.Errorf("%w: %w", why, errors.Join(errs...))
}

// errNoConnection says that no request was sent; errAllRefuse that all agents refuse connections.
var (
	errNoConnection = errors.New("no connection")
	errAllRefuse    = fmt.Errorf("%w", errNoConnection)
)

// present returns the index of the address to begin with.
func (d *dialer) present() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

// pass moves to the next address, if the address with this index does not serve and is still the one to begin with. It
// reports whether that was so.
func (d *dialer) pass(at int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != at {
		return false
	}
	d.next = (at + 1) % len(d.addresses)
	return true
}

func (d *dialer) openOne(ctx context.Context, network string, at int) (net.Conn, error) {
	address := d.addresses[at]
	limit := dialLimit
	if len(d.addresses) == 1 {
		limit = max(limit, d.ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		if conn, err = adapter.Secure(ctx, conn, d.tls, address); err != nil {
			return nil, err
		}
	}
	t := &tracked{conn, d, at}
	if !d.track(t) {
		_ = conn.Close()
		return nil, store.ErrClosed
	}
	return t, nil
}

// track keeps track of a connection. It reports false if the connections have been closed.
func (d *dialer) track(t *tracked) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		return false
	}
	d.conns[t] = struct{}{}
	return true
}

// tracked is a connection of a dialer's.
type tracked struct {
	net.Conn
	dialer *dialer
	at     int // the index of its address
}

// Close implements net.Conn.
func (t *tracked) Close() error {
	t.dialer.mu.Lock()
	delete(t.dialer.conns, t)
	t.dialer.mu.Unlock()
	return t.Conn.Close()
}

// closeAll closes all connections, for good.
func (d *dialer) closeAll() {
	d.mu.Lock()
	conns := d.conns
	d.conns = nil
	d.mu.Unlock()
	for conn := range conns {
		_ = conn.Conn.Close()
	}
}

package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// dial opens a connection for the client library.
func (d *driver) dial(network, address string, _ time.Duration) (net.Conn, error) {
	failed, wait := d.hosts.round()
	adapter.PauseFor(d.lifecycle.Background, wait)
	w, err := d.dialWire(network, address, failed)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready, d.trouble = time.Time{}, fmt.Errorf("%s: connected, and no answer to the handshake", address)
	if err != nil {
		d.trouble = fmt.Errorf("%s: %w", address, err)
	}
	d.hint(err == nil, err)
	if err != nil {
		return nil, err
	}
	if d.wire = w; d.ending {
		w.leaving = d.leaving
	}
	if d.unanswered.IsZero() {
		d.unanswered = time.Now()
	}
	return w, nil
}

// leastLimit is how long each step of connecting may take whatever the TTL, so that a server can refuse one that is too
// short.
const leastLimit = 250 * time.Millisecond

// noTLS reports whether a server has answered the TLS handshake with something else, or by hanging up.
func noTLS(err error) bool {
	_, header := errors.AsType[tls.RecordHeaderError](err)
	return header || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// hint adds to the trouble which scheme to write, if that might be wrong. The caller holds mu.
func (d *driver) hint(connected bool, err error) {
	if tls := d.config.TLS != nil; d.trip == 0 && (tls && noTLS(err) || !tls && connected) {
		d.trouble = adapter.HintTLS(d.trouble, "zookeeper", tls)
	}
}

// broke notes why a connection was lost, unless the store has given it up.
func (d *driver) broke(address string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	closed := errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) // by the library, after a write that failed
	late := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case d.ready.IsZero() && (closed || late):
		return
	case closed, errors.Is(err, io.EOF):
		err = errors.New("the server closed the connection")
	case late:
		err = errors.New("the server does not answer")
	}
	d.trouble = fmt.Errorf("%s: %w", address, err)
	d.hint(true, err)
}

// dialWire does the work of dial. The limits fit the session, and round trips as long as it allows; a server that may
// be gone holds up the others for a second at most, unless all have failed.
func (d *driver) dialWire(network, address string, failed int) (*wire, error) {
	limit := max(d.config.TTL/4, leastLimit)
	if failed == 0 {
		limit = min(limit, time.Second)
	}
	ctx, cancel := context.WithTimeout(d.lifecycle.Background, limit)
	defer cancel()
	conn, err := d.config.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.config.TLS != nil {
		ctx, cancel := context.WithTimeout(d.lifecycle.Background, max(d.config.TTL/2, leastLimit))
		defer cancel()
		if conn, err = adapter.Secure(ctx, conn, d.config.TLS, address); err != nil {
			return nil, err
		}
	}
	if err := conn.SetDeadline(time.Now().Add(d.handshakeLimit())); err != nil {
		_ = conn.Close()
		return nil, err
	}
	w := newWire(conn)
	w.established, w.timedOut, w.wanted, w.forget = d.established, d.hosts.timedOut, d.watches.wanted, d.giveUp()
	w.broke = func(err error) { d.broke(address, err) }
	return w, nil
}

// handshakeLimit is how long the next handshake may take. A server that has just started can
// leave one without an answer: the first limit fits the last round trip, and then it doubles (TestServerRestarts). A
// connection that is refused says nothing of that (TestFirstHandshakeAfterALongOutage).
func (d *driver) handshakeLimit() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := max(d.config.TTL/3, leastLimit)
	if silent := d.hosts.silent; d.trip > 0 && silent < 10 {
		limit = min(limit, max(leastLimit, 2*d.trip)<<silent)
	}
	return limit
}

// up reports whether the session is established on the present connection.
func (d *driver) up() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.upLocked()
}

// upLocked is up. The caller holds mu.
func (d *driver) upLocked() bool {
	return !d.ready.IsZero() && !d.wire.gone.Load()
}

// cut closes the connection; the library opens another.
func (d *driver) cut(why error) {
	d.mu.Lock()
	w := d.wire
	if w != nil {
		d.ready, d.trouble = time.Time{}, why
	}
	d.mu.Unlock()
	if w != nil {
		_ = w.Close()
	}
}

// awaitConnection waits for a connection, for a second at most. The library would keep a request until
// there is one, however long that takes. A refusal ends the wait, and is the error.
func (d *driver) awaitConnection(ctx context.Context) error {
	if d.up() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return d.until(ctx, func() (bool, error) { return d.upLocked(), d.refused })
}

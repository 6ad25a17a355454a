package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// up reports whether the session is established on the present connection.
func (d *driver) up() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.upLocked()
}

// upLocked is up. The caller holds mu.
func (d *driver) upLocked() bool {
	if d.config.Conn != nil {
		return d.conn.State() == zk.StateHasSession
	}
	return !d.ready.IsZero() && !d.wire.gone.Load()
}

// cut closes the connection, if it is the store's own; the library opens another.
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

// awaitLine waits for a connection of the store's own, for a second at most. The library would keep a request until
// there is one, however long that takes.
func (d *driver) awaitLine(ctx context.Context) error {
	if d.config.Conn != nil || d.up() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var trouble error
	if d.until(ctx, func() (bool, error) { trouble = d.trouble; return d.upLocked(), nil }) == nil {
		return nil
	}
	if trouble == nil {
		return fmt.Errorf("%w: no connection", store.ErrUnavailable)
	}
	return fmt.Errorf("%w: no connection: %w", store.ErrUnavailable, trouble)
}

// handshakeLimit is how long a handshake may take with a server with which so many have timed out. One that has just
// started can leave one without an answer: the first limit fits the last round trip, and then it doubles. A connection
// that is refused says nothing of that.
func (d *driver) handshakeLimit(timeouts int) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := max(d.config.TTL/3, leastLimit)
	if d.trip > 0 && timeouts < 10 {
		limit = min(limit, max(redial, 2*d.trip)<<timeouts)
	}
	return limit
}

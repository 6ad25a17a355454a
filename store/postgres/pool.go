package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/jackc/pgx/v5"
)

// pool keeps the connections for requests. A request takes the connection that is free first: one that another request
// has done with, or a new one, which is made if none is free soon. So one connection is enough on a fast link, however
// many requests there are. On a slow link a new one takes three round trips to seven.
type pool struct {
	mu      sync.Mutex
	idle    []*conn               // guarded by mu, as are all below: the one used last is last
	waiting []chan connRequest    // those that wait for a connection, each with room for one
	open    int                   // connections that are idle or in use
	silent  map[chan struct{}]int // connections in use that do not answer, which are not in open, by the places of their requests
	dialing int                   // connections that are being made
}

// connRequest is what a request that waits gets.
type connRequest struct {
	conn *conn
	err  error
}

// conn is a connection of the pool.
type conn struct {
	*pgx.Conn
	losses  uint64 // of the driver, when this connection was made
	used    time.Time
	address string // of the server

	uses   uint64        // guarded by the pool's mu, as is silent: how often it was given back
	silent chan struct{} // its request has had no answer for long, and has left its place among these; nil otherwise
}

const (
	mostConns = requests + renewals
	spare     = time.Minute // how long a connection beside the last one is kept idle
)

// take takes a connection. The caller gives it back.
func (d *driver) take(ctx context.Context) (*conn, error) {
	p := &d.pool
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	w := make(chan connRequest, 1)
	p.waiting = append(p.waiting, w)
	if p.open+p.dialing == 0 {
		d.grow()
	}
	p.mu.Unlock()
	soon := time.NewTicker(min(d.config.TTL/24, time.Second))
	defer soon.Stop()
	var err error
	for err == nil {
		select {
		case g := <-w:
			return g.conn, g.err
		case <-soon.C:
			p.mu.Lock()
			d.grow()
			p.mu.Unlock()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(x chan connRequest) bool { return x == w })
	p.mu.Unlock()
	select {
	case g := <-w:
		if g.conn != nil {
			d.give(g.conn)
		}
	default:
	}
	return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// grow makes another connection, if one is needed. The caller holds the pool's mu.
func (d *driver) grow() {
	p := &d.pool
	if p.dialing < len(p.waiting) && p.open+p.dialing < mostConns && d.life.Go(d.dial) {
		p.dialing++
	}
}

// dial makes a connection. If that fails, all that wait get the error, unless there is another connection, which is busy
// or silent: they wait for that, or for the next try.
func (d *driver) dial() {
	p := &d.pool
	losses := d.losses.Load()
	made, err := d.connect()
	p.mu.Lock()
	p.dialing--
	if err == nil {
		p.open++
		p.mu.Unlock()
		d.give(&conn{Conn: made, losses: losses, address: addressOf(made)})
		return
	}
	if p.open+p.silent[d.requests]+p.silent[d.renewals] > 0 {
		p.mu.Unlock()
		return
	}
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, w := range waiting {
		w <- connRequest{err: err}
	}
}

// give gives a connection back: to the first that waits, if it is of use, and unless one was lost since it was made.
func (d *driver) give(c *conn) {
	p := &d.pool
	c.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.uses++
	if c.silent != nil {
		p.silent[c.silent]--
		p.open++
		c.silent = nil
	}
	if c.IsClosed() || c.losses != d.losses.Load() {
		d.discard(c)
		d.grow()
		return
	}
	if len(p.waiting) > 0 {
		p.waiting[0] <- connRequest{conn: c}
		p.waiting = p.waiting[1:]
		return
	}
	p.idle = append(p.idle, c)
	if oldest := p.idle[0]; c.used.Sub(oldest.used) > spare {
		p.idle = p.idle[1:]
		d.discard(oldest)
	}
}

// setApart is called when a request on a connection has had no answer for long: the connection is silent, or the commit
// hangs. The connection holds no place any more, neither among those of its request nor in the pool, unless as many have
// left theirs. Those to the same server that are at rest are most likely of no more use. The next connection is to another
// server, if there is one that takes changes. setApart reports whether the request has left its place. uses says which
// request it is.
func (d *driver) setApart(c *conn, uses uint64, places chan struct{}) bool {
	p := &d.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.uses != uses || p.silent[places] == cap(places) {
		return false
	}
	c.silent = places
	p.silent[places]++
	p.open--
	p.idle = slices.DeleteFunc(p.idle, func(other *conn) bool {
		if other.address == c.address {
			d.discard(other)
		}
		return other.address == c.address
	})
	d.silent.Store(&c.address)
	d.grow()
	return true
}

// answers notes that a server has carried out a change.
func (d *driver) answers(address string) {
	if silent := d.silent.Load(); silent != nil && *silent == address {
		d.silent.CompareAndSwap(silent, nil)
	}
}

// inUse returns what setApart needs of a connection that was taken.
func (d *driver) inUse(c *conn) (uses uint64) {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	return c.uses
}

// lostConnection notes that a connection was lost, and with it, most likely, all others.
func (d *driver) lostConnection() {
	d.losses.Add(1)
	p := &d.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		d.discard(c)
	}
	p.idle = nil
}

// discard closes a connection that is neither idle nor in use. The caller holds the pool's mu.
func (d *driver) discard(c *conn) {
	d.pool.open--
	if !d.life.Go(func() { shut(c.Conn) }) {
		shut(c.Conn) // the driver is being closed
	}
}

// close closes the connections that are idle. No request is under way.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		shut(c.Conn)
	}
	p.idle = nil
}

// shut closes a connection, and waits for what the client library still does for it.
func shut(c *pgx.Conn) {
	stop := time.AfterFunc(time.Second, func() { _ = c.PgConn().Conn().Close() })
	defer stop.Stop()
	_ = c.Close(context.Background())
	<-c.PgConn().CleanupDone()
}

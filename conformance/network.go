package conformance

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// DialFunc opens a connection, as (&net.Dialer{}).DialContext does. Every adapter that speaks over a network takes
// one as an option.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Faults are the switches on the line between one store and its service. Each takes effect at once, also for what is
// under way, and lasts until Heal. They may be used from any goroutine.
type Faults interface {
	// Cut stops everything in both directions, new connections too. Nobody is told: bytes just don't arrive.
	Cut()
	// LoseReplies lets requests through; what comes back is lost, and so are the connections of that time.
	LoseReplies()
	// Delay adds the time to whatever passes, in each direction; zero takes it away.
	Delay(d time.Duration)
	// Heal undoes Cut and LoseReplies. Connections that have lost bytes are broken off.
	Heal()
	// Requests counts what the store has sent so far: writes to its connections. Renewals count too.
	Requests() int
}

// Network injects faults below everything that a store's client does: it dials, and what passes over the connections
// it dialled obeys the switches. TLS, host names and the cluster stay as they are.
type Network struct {
	mu       sync.Mutex
	cut      bool // guarded by mu, as are all below
	lose     bool
	delay    time.Duration
	requests int
	changed  chan struct{} // closed and replaced when a switch is set
	conns    map[*faultyConn]struct{}
}

// NewNetwork returns a network without faults.
func NewNetwork() *Network {
	return &Network{changed: make(chan struct{}), conns: map[*faultyConn]struct{}{}}
}

// Cut implements Faults.
func (n *Network) Cut() { n.set(func() { n.cut = true }) }

// LoseReplies implements Faults.
func (n *Network) LoseReplies() { n.set(func() { n.lose = true }) }

// Delay implements Faults.
func (n *Network) Delay(d time.Duration) { n.set(func() { n.delay = d }) }

// Requests implements Faults.
func (n *Network) Requests() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests
}

// Heal implements Faults.
func (n *Network) Heal() {
	n.set(func() {
		n.cut, n.lose = false, false
		for c := range n.conns {
			if c.lossy {
				_ = c.inner.Close()
				_ = c.server.Close()
			}
		}
	})
}

func (n *Network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Dial dials through the network. It is a DialFunc.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := n.pass(ctx.Done()); err != nil {
		return nil, context.Cause(ctx)
	}
	server, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &faultyConn{network: n, server: server, closed: make(chan struct{}), sent: make(chan []byte, 1024)}
	c.Conn, c.inner = net.Pipe()
	n.mu.Lock()
	n.conns[c] = struct{}{}
	n.mu.Unlock()
	c.pumps.Go(c.accept)
	c.pumps.Go(c.forward)
	c.pumps.Go(c.back)
	return c, nil
}

var errGivenUp = errors.New("given up while the line was cut")

// pass waits until the line is not cut, and then for the delay. Once gone is closed it waits no longer.
func (n *Network) pass(gone <-chan struct{}) error {
	for {
		n.mu.Lock()
		cut, delay, changed := n.cut, n.delay, n.changed
		n.mu.Unlock()
		if !cut && delay == 0 {
			return nil
		}
		var after <-chan time.Time
		if !cut {
			timer := time.NewTimer(delay)
			defer timer.Stop()
			after, changed = timer.C, nil
		}
		select {
		case <-after:
			return nil
		case <-changed:
		case <-gone:
			return errGivenUp
		}
	}
}

// faultyConn is a connection whose bytes obey the switches. The client holds one end of a pipe, which keeps its
// deadlines whatever the line does; three goroutines, for which Close waits, carry the bytes on.
type faultyConn struct {
	net.Conn // the client's end
	inner    net.Conn
	server   net.Conn
	network  *Network
	lossy    bool        // guarded by the network's mu: bytes that came back were lost
	sent     chan []byte // from accept to forward, in the place of the kernel's buffers

	once   sync.Once
	closed chan struct{}
	pumps  sync.WaitGroup
}

// accept takes what the client writes, cut or not.
func (c *faultyConn) accept() {
	defer close(c.sent)
	buf := make([]byte, 64<<10)
	for {
		n, err := c.inner.Read(buf)
		if n > 0 {
			c.network.mu.Lock()
			c.network.requests++
			c.network.mu.Unlock()
			select {
			case c.sent <- bytes.Clone(buf[:n]):
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// forward carries it to the server. What was written before the client closed still goes out, unless the line is cut.
func (c *faultyConn) forward() {
	defer c.server.Close()
	for p := range c.sent {
		if c.network.pass(c.closed) != nil {
			return
		}
		if _, err := c.server.Write(p); err != nil {
			_ = c.inner.Close()
		}
	}
}

// back carries to the client what the server sends.
func (c *faultyConn) back() {
	defer c.inner.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if n > 0 {
			if c.network.pass(c.closed) != nil {
				return
			}
			if !c.lost() {
				if _, err := c.inner.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// lost reports whether what arrives now is lost. Nothing arrives on a connection that has lost something.
func (c *faultyConn) lost() bool {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.lossy = c.lossy || c.network.lose
	return c.lossy
}

// LocalAddr implements net.Conn.
func (c *faultyConn) LocalAddr() net.Addr { return c.server.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *faultyConn) RemoteAddr() net.Addr { return c.server.RemoteAddr() }

// Close implements net.Conn. It waits until nothing of the connection is left.
func (c *faultyConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		_ = c.Conn.Close()
		_ = c.inner.Close()
		_ = c.server.SetDeadline(time.Now().Add(time.Second))
		c.network.mu.Lock()
		delete(c.network.conns, c)
		c.network.mu.Unlock()
	})
	c.pumps.Wait()
	return nil
}

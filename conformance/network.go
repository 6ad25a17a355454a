package conformance

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// DialFunc opens a connection, as (&net.Dialer{}).DialContext does. Every store that speaks over a network takes one as
// an option.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Faults are the switches on the network between one store and its service. Each takes effect at once, also for bytes
// that are under way. They may be used from any goroutine. Some also have Refuse, as Network does.
type Faults interface {
	// Cut stops all bytes in both directions, also those of new connections, until Heal. Neither side is told.
	Cut()
	// LoseReplies lets requests through and loses what comes back, until Heal. Heal then breaks the connections that
	// have lost bytes.
	LoseReplies()
	// Delay delays all bytes by this time in each direction. Zero ends that; Heal does not.
	Delay(d time.Duration)
	// DelayReplies delays what comes back by this time besides that of Delay. Zero ends that; Heal does not.
	DelayReplies(d time.Duration)
	// Heal undoes Cut, LoseReplies and Refuse. Connections that have lost bytes are closed.
	Heal()
	// Requests counts what the store has sent so far: writes to its connections, and attempts to connect. Renewals count too.
	Requests() int
}

// Network injects faults below a store's client: it dials, and its switches act on the connections that it has dialled.
// TLS, host names and the cluster stay as they are.
type Network struct {
	mu       sync.Mutex
	cut      bool // guarded by mu, as are all below
	lose     bool
	refuse   bool
	delay    time.Duration // of each direction
	replies  time.Duration // besides delay, of what comes back
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

// Refuse undoes Cut, breaks all connections and refuses new ones until Heal, as the machine of a dead server does.
func (n *Network) Refuse() {
	n.set(func() {
		n.cut, n.refuse = false, true
		n.breakOff(func(*faultyConn) bool { return true })
	})
}

// LoseReplies implements Faults.
func (n *Network) LoseReplies() { n.set(func() { n.lose = true }) }

// Delay implements Faults.
func (n *Network) Delay(d time.Duration) { n.set(func() { n.delay = d }) }

// DelayReplies implements Faults.
func (n *Network) DelayReplies(d time.Duration) { n.set(func() { n.replies = d }) }

// Requests implements Faults.
func (n *Network) Requests() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests
}

// Heal implements Faults.
func (n *Network) Heal() {
	n.set(func() {
		n.cut, n.lose, n.refuse = false, false, false
		n.breakOff(func(c *faultyConn) bool { return c.lossy })
	})
}

// breakOff breaks some connections. The caller holds mu.
func (n *Network) breakOff(which func(c *faultyConn) bool) {
	for c := range n.conns {
		if which(c) {
			_ = c.inner.Close()
			_ = c.server.Close()
		}
	}
}

func (n *Network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Dial dials through the network, which takes a round trip. It is a DialFunc.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.count()
	if err := n.pass(ctx.Done(), n.wayOut, time.Now()); err != nil {
		return nil, context.Cause(ctx)
	}
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	if n.refuses() {
		return nil, refused
	}
	server, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := n.pass(ctx.Done(), n.wayBack, time.Now()); err != nil {
		_ = server.Close()
		return nil, context.Cause(ctx)
	}
	c := &faultyConn{
		network: n, server: server, closed: make(chan struct{}),
		sent: make(chan chunk, 1024), came: make(chan chunk, 1024),
	}
	c.Conn, c.inner = net.Pipe()
	n.mu.Lock()
	if n.refuse { // since it was asked
		n.mu.Unlock()
		_ = server.Close()
		return nil, refused
	}
	n.conns[c] = struct{}{}
	n.mu.Unlock()
	c.pumps.Go(c.accept)
	c.pumps.Go(c.forward)
	c.pumps.Go(c.receive)
	c.pumps.Go(c.deliver)
	return c, nil
}

// count counts a request.
func (n *Network) count() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests++
}

// refuses reports whether new connections are refused.
func (n *Network) refuses() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refuse
}

var errGivenUp = errors.New("given up while the line was cut")

// wayOut and wayBack are the delays of the two directions. The caller holds mu.
func (n *Network) wayOut() time.Duration  { return n.delay }
func (n *Network) wayBack() time.Duration { return n.delay + n.replies }

// pass waits until the network is not cut and the delay has passed since the given time. A switch that is set meanwhile
// takes effect. Once gone is closed, pass returns.
func (n *Network) pass(gone <-chan struct{}, delay func() time.Duration, since time.Time) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n.mu.Lock()
		cut, left, changed := n.cut, delay()-time.Since(since), n.changed
		n.mu.Unlock()
		var after <-chan time.Time
		switch {
		case !cut && left <= 0:
			return nil
		case !cut:
			timer.Reset(left)
			after = timer.C
		}
		select {
		case <-after:
		case <-changed:
		case <-gone:
			if cut {
				return errGivenUp
			}
			return nil
		}
	}
}

// faultyConn is a connection on which the switches act. The client has one end of a pipe, on which its deadlines work
// also if the network is cut. Four goroutines carry the bytes; Close waits for them.
type faultyConn struct {
	net.Conn // the client's end
	inner    net.Conn
	server   net.Conn
	network  *Network
	lossy    bool       // guarded by the network's mu: bytes that came back were lost
	sent     chan chunk // from accept to forward, instead of the kernel's buffers; accept closes it
	came     chan chunk // from receive to deliver; receive closes it

	once   sync.Once
	closed chan struct{}
	pumps  sync.WaitGroup
}

// chunk is the bytes of one read.
type chunk struct {
	bytes []byte
	read  time.Time
}

// accept takes what the client writes, cut or not.
func (c *faultyConn) accept() {
	c.take(c.inner, c.sent, c.network.count)
}

// receive takes what the server sends.
func (c *faultyConn) receive() { c.take(c.server, c.came, func() {}) }

// take reads chunks until there are no more, or the client has closed.
func (c *faultyConn) take(from net.Conn, to chan<- chunk, count func()) {
	defer close(to)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			count()
			select {
			case to <- chunk{bytes.Clone(buf[:n]), time.Now()}:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// forward carries to the server what the client wrote before it closed, unless the line is cut.
func (c *faultyConn) forward() {
	defer c.server.Close()
	for p := range c.sent {
		if c.network.pass(c.closed, c.network.wayOut, p.read) != nil {
			return
		}
		if _, err := c.server.Write(p.bytes); err != nil {
			_ = c.inner.Close()
		}
	}
}

// deliver carries to the client what the server sent.
func (c *faultyConn) deliver() {
	defer c.inner.Close()
	for p := range c.came {
		if c.network.pass(c.closed, c.network.wayBack, p.read) != nil {
			return
		}
		if c.lost() {
			continue
		}
		if _, err := c.inner.Write(p.bytes); err != nil {
			return
		}
	}
}

// lost reports whether bytes that arrive now are lost. After a loss, all later bytes of the connection are lost, too.
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
		_ = c.Conn.Close() // first: once closed is closed, bytes that are held back are delivered at once
		close(c.closed)
		_ = c.inner.Close()
		_ = c.server.SetDeadline(time.Now().Add(time.Second))
		c.network.mu.Lock()
		delete(c.network.conns, c)
		c.network.mu.Unlock()
	})
	c.pumps.Wait()
	return nil
}

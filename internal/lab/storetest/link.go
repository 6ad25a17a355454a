package storetest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Link is a slow line: what is sent over the connections that its Dial makes arrives after a delay, in both directions,
// however much is under way. A dial takes a round trip.
type Link struct{ oneWay atomic.Int64 }

// RoundTrip sets the time from a request to its answer. It counts for what is sent from now on.
func (l *Link) RoundTrip(d time.Duration) { l.oneWay.Store(int64(d / 2)) }

// Dial connects as net.Dialer does.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-time.After(2 * time.Duration(l.oneWay.Load())):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	server, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &slowConn{server: server, closed: make(chan struct{})}
	c.Conn, c.inner = net.Pipe()
	c.carry(l, c.inner, server)
	c.carry(l, server, c.inner)
	return c, nil
}

// slowConn is a connection over a Link. The caller holds one end of a pipe.
type slowConn struct {
	net.Conn // the caller's end
	inner    net.Conn
	server   net.Conn
	once     sync.Once
	closed   chan struct{}
	carriers sync.WaitGroup // Close waits for them
}

type parcel struct {
	data []byte
	due  time.Time
}

// carry hands on what comes from one side when its time has come. It ends with either side.
func (c *slowConn) carry(l *Link, from, to net.Conn) {
	sent := make(chan parcel, 10_000) // what a line holds
	c.carriers.Go(func() {
		defer close(sent)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				select {
				case sent <- parcel{buf[:n], time.Now().Add(time.Duration(l.oneWay.Load()))}:
				case <-c.closed:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	c.carriers.Go(func() {
		defer to.Close()
		for p := range sent {
			select {
			case <-time.After(time.Until(p.due)):
			case <-c.closed:
				return
			}
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
				return
			}
		}
	})
}

// LocalAddr implements net.Conn.
func (c *slowConn) LocalAddr() net.Addr { return c.server.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *slowConn) RemoteAddr() net.Addr { return c.server.RemoteAddr() }

// Close implements net.Conn. It waits until nothing of the connection is left.
func (c *slowConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		_ = c.Conn.Close()
		_ = c.inner.Close()
		_ = c.server.Close()
	})
	c.carriers.Wait()
	return nil
}

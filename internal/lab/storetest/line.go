package storetest

import (
	"bytes"
	"context"
	"net"
	"sync"
)

// Line is a line that can hold back what is sent over the connections that its Dial makes. The sender is not told.
type Line struct {
	mu    sync.Mutex
	holds bool // guarded by mu, as is conns
	conns []*heldConn
}

// Hold holds back what is sent from now on.
func (l *Line) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = true
}

// Holds reports whether a text was sent and is held back.
func (l *Line) Holds(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		if bytes.Contains(c.held, []byte(text)) {
			return true
		}
	}
	return false
}

// LetGo sends what is held back, and holds back no more.
func (l *Line) LetGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = false
	for _, c := range l.conns {
		_, _ = c.Conn.Write(c.held)
		c.held = nil
	}
}

// Dial connects as net.Dialer does.
func (l *Line) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &heldConn{Conn: conn, line: l}
	l.conns = append(l.conns, c)
	return c, nil
}

type heldConn struct {
	net.Conn
	line *Line
	held []byte // guarded by the line's mu
}

func (c *heldConn) Write(p []byte) (int, error) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.holds {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

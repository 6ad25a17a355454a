package faults

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// line is a TCP proxy to a server. After cut nothing passes, and neither side is told.
type line struct {
	listener net.Listener
	server   string
	over     chan struct{} // closed by cut
	once     sync.Once
	mu       sync.Mutex
	conns    []net.Conn // guarded by mu
	closed   bool       // guarded by mu
	work     sync.WaitGroup
}

// newLine makes a line, which the end of the test closes.
func newLine(t testing.TB, server string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{listener: listener, server: server, over: make(chan struct{})}
	l.work.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) cut() { l.once.Do(func() { close(l.over) }) }

func (l *line) isCut() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func (l *line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		if !l.keep(client) || l.isCut() {
			continue // open, and silent
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil || !l.keep(server) {
			_ = client.Close()
			continue
		}
		l.work.Go(func() { l.carry(server, client) })
		l.work.Go(func() { l.carry(client, server) })
	}
}

// keep makes close close a connection, too.
func (l *line) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.conns = append(l.conns, c)
	return true
}

// carry ends when either end is closed, or the line is.
func (l *line) carry(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if l.isCut() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

func (l *line) close() {
	l.cut()
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.work.Wait()
}

package postgres

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy forwards connections to the server until it is cut. Then it forwards nothing and closes nothing, as when a
// machine has vanished.
type proxy struct {
	listener net.Listener
	target   string
	cut      chan struct{} // closed by cutOff
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	ports []int      // from which it has connected, guarded by mu
	ended bool       // guarded by mu
}

// newProxy returns a proxy that ends with the benchmark.
func newProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &proxy{listener: listener, target: target, cut: make(chan struct{})}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cutOff() { close(p.cut) }

// from returns the ports of the proxy's connections to the server.
func (p *proxy) from() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.ports...)
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.add(client) || p.isCut() {
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if p.add(server) {
			p.running.Go(func() { p.copy(server, client) })
			p.running.Go(func() { p.copy(client, server) })
		}
	}
}

// add keeps a connection to close it at the end, and says whether that is still to come.
func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		_ = c.Close()
		return false
	}
	p.conns = append(p.conns, c)
	if c.RemoteAddr().String() == p.target {
		p.ports = append(p.ports, c.LocalAddr().(*net.TCPAddr).Port)
	}
	return true
}

func (p *proxy) isCut() bool {
	select {
	case <-p.cut:
		return true
	default:
		return false
	}
}

// copy copies until the proxy is cut. If a side is closed before, it closes the other one.
func (p *proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if p.isCut() {
			return
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

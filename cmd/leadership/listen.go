package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// listener is an HTTP server at the address of --listen.
type listener struct {
	net    net.Listener
	server *http.Server
	done   chan struct{} // closed when the server has ended
}

// mostClients is how many connections run serves at once. With no descriptors left, a check or a connection to the store
// could not be made, and the leadership would be lost.
const mostClients = 64

// listen opens the address of --listen. Nothing is served before serve.
func listen(address string, clients int) (*listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &failure{code: exitFailed, err: fmt.Errorf("can't listen: %w", err), advice: "give --listen a free address of this machine, such as 127.0.0.1:8008"}
	}
	return &listener{net: &limited{Listener: l, most: clients, peers: map[string][]*guest{}}, done: make(chan struct{})}, nil
}

// serve serves until end. Clients that are slow or idle are cut off, so that they hold no memory for long.
func (l *listener) serve(log *slog.Logger, handler http.Handler) {
	log.Info("listening", "address", l.net.Addr())
	l.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(l.done)
		if err := l.server.Serve(l.net); !errors.Is(err, http.ErrServerClosed) {
			log.Error("nothing is served any more", "address", l.net.Addr(), "error", err)
		}
	}()
}

// end ends the server, and the requests that are under way.
func (l *listener) end() {
	_ = l.server.Close()
	<-l.done
}

// limited is a listener with a limit of connections. A client never waits for others to leave: if all places are taken, the
// oldest connection of the peer that has most is closed. So a balancer's check is answered whatever idle or slow clients
// do, and those of one machine push out only each other while they are the most.
type limited struct {
	net.Listener
	most int

	mu    sync.Mutex
	count int                 // guarded by mu, as is peers
	peers map[string][]*guest // by address: the connections, the oldest first
}

// guest is a connection that has a place.
type guest struct {
	net.Conn
	listener *limited
	peer     string
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{conn, l, conn.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(g.peer); err == nil {
		g.peer = host
	}
	if oldest := l.admit(g); oldest != nil {
		_ = oldest.Close()
	}
	return g, nil
}

// admit gives a connection a place, and returns the one that has to leave, or nil.
func (l *limited) admit(g *guest) (oldest *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.most {
		most := ""
		for peer, all := range l.peers {
			if n := len(l.peers[most]); len(all) > n || len(all) == n && peer == g.peer {
				most = peer
			}
		}
		oldest = l.peers[most][0]
		l.leave(oldest)
	}
	l.count++
	l.peers[g.peer] = append(l.peers[g.peer], g)
	return oldest
}

// leave takes a connection's place back, if it has one. The caller holds mu.
func (l *limited) leave(g *guest) {
	all := l.peers[g.peer]
	i := slices.Index(all, g)
	if i < 0 {
		return
	}
	l.count--
	if l.peers[g.peer] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(l.peers, g.peer)
	}
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.listener.mu.Lock()
	g.listener.leave(g)
	g.listener.mu.Unlock()
	return g.Conn.Close()
}

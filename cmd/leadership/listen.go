package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// listener is an HTTP server at the address of --listen.
type listener struct {
	net    net.Listener
	server *http.Server
	done   chan struct{} // closed when the server has ended
}

// mostClients is how many connections run serves at once. The others wait: with no descriptors left, a check or a
// connection to the store could not be made, and the leadership would be lost.
const mostClients = 64

// listen opens the address of --listen. Nothing is served before serve.
func listen(address string, clients int) (*listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &failure{code: exitFailed, err: fmt.Errorf("can't listen: %w", err), advice: "give --listen a free address of this machine, such as 127.0.0.1:8008"}
	}
	return &listener{net: netutil.LimitListener(l, clients), done: make(chan struct{})}, nil
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

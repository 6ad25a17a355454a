package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
)

// dial opens a connection for the client library.
func (s *Store) dial(ctx context.Context, address string) (net.Conn, error) {
	dial := s.config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		s.troubled(fmt.Errorf("%s: %w", address, err))
	}
	return conn, err
}

// security is TLS by the store's settings. The client library's own expects every server to have the name of its
// endpoint, whatever the settings say.
type security struct {
	credentials.TransportCredentials
	store *Store
}

// ClientHandshake implements credentials.TransportCredentials.
func (c security) ClientHandshake(ctx context.Context, endpoint string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ClientHandshake(ctx, cmp.Or(c.store.config.TLS.ServerName, endpoint), conn)
	if err != nil {
		c.store.troubled(fmt.Errorf("%s: %w", endpoint, err))
		return nil, nil, err
	}
	return alertable{secured, c.store}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c security) Clone() credentials.TransportCredentials {
	return security{c.TransportCredentials.Clone(), c.store}
}

// alertable is a connection over which the server may yet say why it does not like us: with TLS 1.3 it sees the
// client's certificate after the client's part of the handshake.
type alertable struct {
	net.Conn
	store *Store
}

// Read implements net.Conn.
func (c alertable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if isAlert(err) {
		c.store.troubled(fmt.Errorf("%s: %w", c.RemoteAddr(), err))
	}
	return n, err
}

// isAlert reports whether an error is what the other side said in TLS.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// troubled remembers why there is no answer; nil says that there was one.
func (s *Store) troubled(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || !isAlert(s.trouble) { // whose consequences say less
		s.trouble = err
	}
}

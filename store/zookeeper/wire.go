package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// wire is a connection to a server as the client library sees it. It mends what the library leaves open:
//
//   - the session timeout that was negotiated, and the moment the session was confirmed, are read off the handshake;
//   - the handshake has a deadline that fits the session;
//   - a failed write shows as a failed read: the library blocks for ever on one that fails while it authenticates;
//   - the store can cut a connection that has gone silent, so that the library tries the next server in time.
type wire struct {
	net.Conn
	established func(id int64, ttl time.Duration, sent store.Instant)

	mu    sync.Mutex
	sent  *store.Instant // guarded by mu: when the connect request was written
	reply []byte         // guarded by mu: of the connect reply, what has been read; nil once it is whole
}

// Lengths within the connect reply: its frame, the protocol version, the timeout, the session id.
const (
	frameHeader  = 4
	replyTimeout = frameHeader + 4
	replySession = replyTimeout + 4
	replyEnd     = replySession + 8
)

// dial opens a connection for the client library. The library's own timeout is 1 s, whatever the session's.
func (s *Store) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, min(timeout, s.config.TTL/3))
	defer cancel()
	conn, err := s.config.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if s.config.TLS != nil {
		config := s.config.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secure
	}
	w := &wire{Conn: conn, established: s.established, reply: []byte{}}
	if err := conn.SetDeadline(time.Now().Add(s.config.TTL / 3)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	s.setWire(w)
	return w, nil
}

// Write implements net.Conn. It never fails: a connection that can't be written is closed, which fails the reads.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.sent == nil {
		now := store.Now()
		w.sent = &now
	}
	w.mu.Unlock()
	if _, err := w.Conn.Write(p); err != nil {
		_ = w.Conn.Close()
	}
	return len(p), nil
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	if w.reply == nil || n == 0 {
		w.mu.Unlock()
		return n, err
	}
	w.reply = append(w.reply, p[:n]...)
	reply := w.reply
	if len(reply) < replyEnd {
		w.mu.Unlock()
		return n, err
	}
	w.reply = nil
	sent := w.sent
	w.mu.Unlock()
	_ = w.Conn.SetDeadline(time.Time{}) // from here on the library sets them
	timeout := int32(binary.BigEndian.Uint32(reply[replyTimeout:]))
	id := int64(binary.BigEndian.Uint64(reply[replySession:]))
	if sent != nil {
		w.established(id, time.Duration(timeout)*time.Millisecond, *sent)
	}
	return n, err
}

// SetReadDeadline implements net.Conn. During the handshake the store's own deadline holds.
func (w *wire) SetReadDeadline(t time.Time) error {
	if w.handshaking() {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. During the handshake the store's own deadline holds.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.handshaking() {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

func (w *wire) handshaking() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reply != nil
}

package zookeeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// wire is a connection to a server as the client library sees it. It mends what the library leaves open:
//
//   - the session timeout that was negotiated, and the moment the session was confirmed, are read off the handshake;
//   - the handshake has a deadline that fits the session;
//   - a frame whose length can't be a server's is an error: the library would allocate what it says, or panic;
//   - a failed write shows as a failed read: the library blocks for ever on one that fails while it authenticates;
//   - the library is shown no zxid: it reads the last one when it sets its watches again, and writes it with each
//     reply, without a lock. The store keeps the last one, and puts it into the requests that tell it;
//   - a new session does not insist on the last zxid of another: a service that was restored to an earlier state would
//     refuse the library for ever;
//   - a session that was abandoned is ended in the handshake that resumes it;
//   - the store is told which watches the server has set, when it says so: the library sets its own again after a
//     reconnection, in a request of its own or several, and does not report the answers;
//   - the store can cut a connection that has gone silent, so that the library tries the next server in time.
type wire struct {
	net.Conn
	established func(id int64, resumed bool, ttl time.Duration, sent store.Instant)
	timedOut    func() // the handshake has; constant

	last   *atomic.Uint64 // the store's: the highest zxid seen
	before uint64         // that of before this connection; used by Write alone
	forget bool           // constant: the connect request is not to insist on the last zxid

	abandoned func() int64                      // the id of a session that has been abandoned; 0 if there is none
	watched   func(keys []watchKey, again bool) // the server has set these watches, or set them again; constant
	gone      atomic.Bool                       // it has been closed

	prefix []byte         // of the frame being read: what has come of its length; used by Read alone, as are the next three
	length int            // of that frame
	left   int            // bytes of it which are still to come
	header [minFrame]byte // what has come of its header

	mu    sync.Mutex
	sent  *store.Instant // guarded by mu: when the connect request was written
	asked int64          // guarded by mu: the session that it asked for; 0 for a new one
	reply []byte         // guarded by mu: of the connect reply, what has been read; nil once it is whole
	asks  map[uint32]ask // guarded by mu: by xid, the requests under way that set watches
}

// The connect reply: the length of its frame, the protocol version, the timeout, the session id, a password of 16
// bytes with its length, and a flag that older servers leave out.
const (
	lengthBytes  = 4
	replyTimeout = lengthBytes + 4
	replySession = replyTimeout + 4
	replyEnd     = replySession + 8
	minReply     = replyEnd - lengthBytes + 4 + 16
	maxReply     = minReply + 1
)

// Requests: the connect request has the last zxid behind its length and the protocol version, then the timeout and the
// session id. Later ones have their opcode behind the length and the xid; that which sets watches has the zxid behind
// that.
const (
	requestZxid    = lengthBytes + 4
	requestSession = requestZxid + 8 + 4
	requestOpcode  = lengthBytes + 4
	requestBody    = requestOpcode + 4
	setWatchesZxid = requestBody

	setWatchesLists = setWatchesZxid + 8 // the watches on nodes, on nodes that do not exist, and on children
)

// closeSession is the request that ends a session: its length, an xid, its opcode.
var closeSession = []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}

// Later frames begin with a header of 16 bytes: xid, zxid, error. The longest is a list of nodes: 64 MiB holds a
// million ballots.
const (
	frameZxid    = 4
	frameZxidEnd = frameZxid + 8
	frameError   = frameZxidEnd
	minFrame     = 16
	maxFrame     = 64 << 20
)

// dial opens a connection for the client library.
func (d *driver) dial(network, address string, _ time.Duration) (net.Conn, error) {
	failed, wait := d.hosts.round()
	adapter.PauseFor(d.life.Background, wait)
	w, err := d.dialWire(network, address, failed)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready = time.Time{}
	if err != nil {
		d.trouble = fmt.Errorf("%s: %w", address, err)
		if d.config.TLS != nil && noTLS(err) && !d.worked {
			d.trouble = adapter.HintTLS(d.trouble, "zookeeper", true)
		}
		return nil, err
	}
	d.wire = w
	if d.unanswered.IsZero() {
		d.unanswered = time.Now()
	}
	d.trouble = fmt.Errorf("%s: connected, and no answer to the handshake", address)
	if d.config.TLS == nil && !d.worked {
		d.trouble = adapter.HintTLS(d.trouble, "zookeeper", false)
	}
	return w, nil
}

// leastLimit is how long each step of connecting may take whatever the TTL, so that a server can refuse one that is too
// short.
const leastLimit = 250 * time.Millisecond

// noTLS reports whether a server has answered the TLS handshake with something else, or by hanging up.
func noTLS(err error) bool {
	_, header := errors.AsType[tls.RecordHeaderError](err)
	return header || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// dialWire does the work of dial. The limits fit the session, and round trips as long as it allows; a server that may
// be gone holds up the others for a second at most, unless all have failed.
func (d *driver) dialWire(network, address string, failed int) (*wire, error) {
	limit := max(d.config.TTL/4, leastLimit)
	if failed == 0 {
		limit = min(limit, time.Second)
	}
	ctx, cancel := context.WithTimeout(d.life.Background, limit)
	defer cancel()
	conn, err := d.config.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.config.TLS != nil {
		if conn, err = d.secure(conn, address); err != nil {
			return nil, err
		}
	}
	if err := conn.SetDeadline(time.Now().Add(d.handshakeLimit(d.hosts.timeouts(address)))); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &wire{
		Conn: conn, established: d.established, timedOut: func() { d.hosts.timedOut(address) }, reply: []byte{}, last: &d.last, forget: d.giveUp(),
		abandoned: func() int64 {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.ending {
				return 0
			}
			return d.leaving
		},
		watched: d.watches.answered,
	}, nil
}

// secure speaks TLS on a connection.
func (d *driver) secure(conn net.Conn, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.life.Background, max(d.config.TTL/2, leastLimit))
	defer cancel()
	config := d.config.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// Write implements net.Conn. It never fails: a connection that can't be written is closed, which fails the reads.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	first := w.sent == nil
	if first {
		now := store.Now()
		w.sent = &now
		if len(p) >= requestSession+8 {
			w.asked = int64(binary.BigEndian.Uint64(p[requestSession:]))
		}
	} else if a := asksOf(p); len(a.keys) > 0 {
		if w.asks == nil {
			w.asks = map[uint32]ask{}
		}
		w.asks[binary.BigEndian.Uint32(p[lengthBytes:])] = a
	}
	w.mu.Unlock()
	if _, err := w.Conn.Write(w.withZxid(p, first)); err != nil {
		_ = w.Close()
	}
	return len(p), nil
}

// withZxid returns the request with the last zxid in it, if it is one that tells it.
func (w *wire) withZxid(p []byte, first bool) []byte {
	at := setWatchesZxid
	switch {
	case first:
		at = requestZxid
		if w.forget {
			w.last.Store(0)
		}
		w.before = w.last.Load()
	case len(p) < requestBody || binary.BigEndian.Uint32(p[requestOpcode:]) != opSetWatches:
		return p
	}
	if len(p) < at+8 {
		return p
	}
	p = bytes.Clone(p)
	binary.BigEndian.PutUint64(p[at:], w.before)
	if id := w.abandoned(); first && id != 0 && len(p) >= requestSession+8 && binary.BigEndian.Uint64(p[requestSession:]) == uint64(id) {
		p = append(p, closeSession...)
	}
	return p
}

// Read implements net.Conn. It never reads beyond the end of a frame or of its length, as the library does not either.
func (w *wire) Read(p []byte) (int, error) {
	limit := w.left
	if limit == 0 {
		limit = lengthBytes - len(w.prefix)
	}
	p = p[:min(len(p), limit)]
	n, err := w.Conn.Read(p)
	if err != nil {
		w.gone.Store(true)
		if errors.Is(err, os.ErrDeadlineExceeded) && w.handshaking() {
			w.timedOut()
		}
	}
	if n == 0 {
		return n, err
	}
	sent, reply := w.handshake(p[:n])
	if bad := w.count(p[:n], reply != nil); bad != nil {
		_ = w.Close()
		return 0, bad
	}
	if len(reply) == replyEnd {
		_ = w.SetDeadline(time.Time{}) // from here on the library sets them
		timeout := int32(binary.BigEndian.Uint32(reply[replyTimeout:]))
		id := int64(binary.BigEndian.Uint64(reply[replySession:]))
		w.mu.Lock()
		resumed := id == w.asked
		w.mu.Unlock()
		w.established(id, resumed, time.Duration(timeout)*time.Millisecond, *sent)
	}
	return n, err
}

// handshake collects the connect reply as far as it matters, and returns what there is; nil when that is over.
func (w *wire) handshake(p []byte) (sent *store.Instant, reply []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reply == nil || w.sent == nil {
		return nil, nil
	}
	reply = append(w.reply, p[:min(len(p), replyEnd-len(w.reply))]...)
	w.reply = reply
	if len(reply) == replyEnd {
		w.reply = nil
	}
	return w.sent, reply
}

// count follows the frames, and refuses a length that can't be right.
func (w *wire) count(p []byte, handshaking bool) error {
	if w.left > 0 {
		if !handshaking {
			w.note(p)
		}
		w.left -= len(p)
		return nil
	}
	if w.prefix = append(w.prefix, p...); len(w.prefix) < lengthBytes {
		return nil
	}
	length := binary.BigEndian.Uint32(w.prefix)
	w.prefix = w.prefix[:0]
	low, high := uint32(minFrame), uint32(maxFrame)
	if handshaking {
		low, high = minReply, maxReply
	}
	if length < low || length > high {
		return fmt.Errorf("not a ZooKeeper server: a frame of %d bytes instead of %d to %d", length, low, high)
	}
	w.length, w.left = int(length), int(length)
	return nil
}

// note follows the header of the frame that p belongs to, and takes the zxid out.
func (w *wire) note(p []byte) {
	at := w.length - w.left
	for i := 0; i < len(p) && at < minFrame; i, at = i+1, at+1 {
		w.header[at] = p[i]
		if at >= frameZxid && at < frameZxidEnd {
			p[i] = 0
		}
		if at == minFrame-1 {
			w.replied()
		}
	}
}

// replied takes the header of a frame. Events have no zxid: all bits are set.
func (w *wire) replied() {
	if zxid := binary.BigEndian.Uint64(w.header[frameZxid:]); int64(zxid) > 0 {
		w.last.Store(max(w.last.Load(), zxid))
	}
	xid := binary.BigEndian.Uint32(w.header[:])
	w.mu.Lock()
	a := w.asks[xid]
	delete(w.asks, xid)
	w.mu.Unlock()
	if a.set(int32(binary.BigEndian.Uint32(w.header[frameError:]))) {
		w.watched(a.keys, a.op == opSetWatches)
	}
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.gone.Store(true)
	return w.Conn.Close()
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

package zookeeper

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// wire is a connection to a server as the client library sees it. It mends what the library leaves open; the tests
// behind each demand it:
//
//   - the timeout that was granted, the session, and when its handshake was sent are read off the handshake, which has a
//     deadline that fits the session (TestTTLIsNotGranted, TestFirstHandshakeAfterALongOutage);
//   - a new session does not insist on the last zxid of another: a service that was restored to an earlier state would
//     refuse the library for ever (TestServerLosesItsData);
//   - a session that was given up is ended in the handshake that resumes it (TestRestoredCopyHasAWithdrawnBallot);
//   - reads set a watch if the driver wants one: see watches;
//   - a frame whose length can't be a server's is an error: the library would allocate what it says, or panic
//     (TestWireRefusesFramesThatNoServerSends);
//   - a failed write shows as a failed read: the library blocks for ever on one that fails while it authenticates
//     (TestConnectionBreaksWhileAuthenticating).
//
// Until the handshake is over a single goroutine of the library's uses it, and then one writes and one reads.
type wire struct {
	net.Conn
	in *bufio.Reader // of Conn: reading the length of a frame costs no system call of its own

	established func(id int64, resumed bool, ttl time.Duration, sent store.Instant) // constant, as are all to leaving
	timedOut    func()                                                              // the handshake has
	wanted      func(watchKey) bool                                                 // whether a read of this must set a watch
	forget      bool                                                                // the last zxid is not insisted on
	leaving     int64                                                               // the id of a session to be ended; 0 if there is none

	gone  atomic.Bool   // it has been closed
	sent  store.Instant // when the connect request was written
	asked int64         // the session that it asked for; 0 for a new one
	state int           // of the handshake
	left  int           // bytes of the frame being read which are still to come; used by Read alone
}

// The states of the handshake.
const (
	silent = iota
	asking // the connect request has been written
	shaken // it has been answered
)

func newWire(conn net.Conn) *wire { return &wire{Conn: conn, in: bufio.NewReader(conn)} }

// A frame begins with the length of the rest. The connect reply has the protocol version, the timeout, the session id, a
// password of 16 bytes with its length, and a flag that older servers leave out. Later frames begin with a header of 16
// bytes. The longest is a list of nodes: 64 MiB holds a million ballots.
const (
	lengthBytes  = 4
	replyTimeout = lengthBytes + 4
	replySession = replyTimeout + 4
	minReply     = 4 + 4 + 8 + 4 + 16
	maxReply     = minReply + 1
	minFrame     = 16
	maxFrame     = 64 << 20
)

// The connect request has the last zxid behind its length and the protocol version, then the timeout and the session id.
// Later ones have their xid and opcode. Those that read a node have its path with its length, and whether to watch it.
const (
	requestZxid    = lengthBytes + 4
	requestSession = requestZxid + 8 + 4
	requestOpcode  = lengthBytes + 4
	requestPath    = requestOpcode + 4 + lengthBytes

	opExists  = 3
	opGetData = 4
)

// closeSession is the request that ends a session: its length, an xid, its opcode.
var closeSession = []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}

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
	if d.wire = w; d.ending {
		w.leaving = d.leaving
	}
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
		ctx, cancel := context.WithTimeout(d.life.Background, max(d.config.TTL/2, leastLimit))
		defer cancel()
		if conn, err = adapter.Secure(ctx, conn, d.config.TLS, address); err != nil {
			return nil, err
		}
	}
	if err := conn.SetDeadline(time.Now().Add(d.handshakeLimit(d.hosts.timeouts(address)))); err != nil {
		_ = conn.Close()
		return nil, err
	}
	w := newWire(conn)
	w.established, w.wanted, w.forget = d.established, d.watches.wanted, d.giveUp()
	w.timedOut = func() { d.hosts.timedOut(address) }
	return w, nil
}

// Write implements net.Conn. It never fails: a connection that can't be written is closed, which fails the reads.
func (w *wire) Write(p []byte) (int, error) {
	out := p
	if w.state == silent {
		w.state, w.sent = asking, store.Now()
		out = w.connect(p)
	} else if key, ok := reads(p); ok && w.wanted(key) {
		out = bytes.Clone(p)
		out[len(out)-1] = 1
	}
	if _, err := w.Conn.Write(out); err != nil {
		_ = w.Close()
	}
	return len(p), nil
}

// connect returns the connect request as it is sent.
func (w *wire) connect(p []byte) []byte {
	if len(p) < requestSession+8 {
		return p
	}
	p = bytes.Clone(p)
	if w.forget {
		clear(p[requestZxid:][:8])
	}
	if w.asked = int64(binary.BigEndian.Uint64(p[requestSession:])); w.asked != 0 && w.asked == w.leaving {
		p = append(p, closeSession...)
	}
	return p
}

// reads returns the node that a request reads, and false if it reads none.
func reads(p []byte) (key watchKey, ok bool) {
	if len(p) <= requestPath {
		return key, false
	}
	op := binary.BigEndian.Uint32(p[requestOpcode:])
	return watchKey{string(p[requestPath : len(p)-1]), op == opExists}, op == opExists || op == opGetData
}

// Read implements net.Conn. It never reads beyond the end of a frame.
func (w *wire) Read(p []byte) (n int, err error) {
	if w.left == 0 {
		err = w.next()
	}
	if err == nil {
		n, err = w.in.Read(p[:min(len(p), w.left)])
		w.left -= n
	}
	if err != nil {
		_ = w.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) && w.state != shaken {
			w.timedOut()
		}
	}
	return n, err
}

// next looks at the beginning of the next frame. It takes the connect reply before the library sees it.
func (w *wire) next() error {
	low, high := minFrame, maxFrame
	if w.state != shaken {
		low, high = minReply, maxReply
	}
	p, err := w.in.Peek(lengthBytes)
	if err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(p)
	if length < uint32(low) || length > uint32(high) {
		return fmt.Errorf("not a ZooKeeper server: a frame of %d bytes instead of %d to %d", length, low, high)
	}
	w.left = lengthBytes + int(length)
	if w.state == shaken {
		return nil
	}
	if p, err = w.in.Peek(w.left); err != nil {
		return err
	}
	w.state = shaken
	_ = w.SetDeadline(time.Time{}) // from here on the library sets them
	id, timeout := int64(binary.BigEndian.Uint64(p[replySession:])), int32(binary.BigEndian.Uint32(p[replyTimeout:]))
	w.established(id, id == w.asked, time.Duration(timeout)*time.Millisecond, w.sent)
	return nil
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.gone.Store(true)
	return w.Conn.Close()
}

// SetReadDeadline implements net.Conn. During the handshake the store's own deadline holds.
func (w *wire) SetReadDeadline(t time.Time) error {
	if w.state != shaken {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. During the handshake the store's own deadline holds.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.state != shaken {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

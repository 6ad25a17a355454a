package zookeeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// wire is a connection to a server as the client library sees it. It corrects what the library does not do; each point
// names the tests that demand it:
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
	broke       func(error)                                                         // a read or a write has failed
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
		w.broke(err)
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
		w.broke(err)
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
	_ = w.Conn.SetDeadline(time.Time{}) // from here on the library sets them
	id, timeout := int64(binary.BigEndian.Uint64(p[replySession:])), int32(binary.BigEndian.Uint32(p[replyTimeout:]))
	w.established(id, id == w.asked, time.Duration(timeout)*time.Millisecond, w.sent)
	return nil
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.gone.Store(true)
	return w.Conn.Close()
}

// SetReadDeadline implements net.Conn. During the handshake the driver's own deadline holds. After it the library's does,
// which is the only one while a session is being ended (TestServerFreezesWhileASessionIsEnded).
func (w *wire) SetReadDeadline(t time.Time) error {
	if w.state != shaken {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn: see SetReadDeadline.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.state != shaken {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

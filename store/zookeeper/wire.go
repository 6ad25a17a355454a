package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// wire is a connection to a server as a client of the library sees it. The driver has made the handshake: the client's
// own connect request is dropped, and the client reads the answer to the driver's. No later frame is changed. Besides:
//
//   - a frame whose length can't be a server's is an error: the library would allocate what it says, or panic
//     (TestWireRefusesFramesThatNoServerSends);
//   - a failed write shows as a failed read: the library might answer a request whose write has failed three times, and
//     has room for two answers;
//   - reads have no deadline: serve notices a silence, and the library's limit can pass while the process stands still;
//   - the wire keeps why the connection has ended, and the first and the highest zxid.
//
// One goroutine of the library's writes, and one reads.
type wire struct {
	net.Conn
	in *bufio.Reader // of Conn

	greeted bool // the client has written its connect request; only Write uses it
	left    int  // bytes of the frame being read which are still to come; only Read uses it

	first atomic.Int64 // the zxid of the first answer to a request that has one; 0 before
	last  atomic.Int64 // the highest zxid so far

	ctx    context.Context // ends with the connection, and says why
	cancel context.CancelCauseFunc
}

func newWire(conn net.Conn) *wire {
	w := &wire{Conn: conn, in: bufio.NewReader(conn)}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	return w
}

// Frames begin with the length of the rest. A server's frames have at least the header of a reply. The longest is a
// list of nodes: 64 MiB holds a million ballots.
const (
	lengthBytes = 4
	minFrame    = 16
	maxFrame    = 64 << 20
)

// frame peeks at the length of the next frame.
func (w *wire) frame(low, high int) (int, error) {
	p, err := w.in.Peek(lengthBytes)
	if err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(p)
	if length < uint32(low) || length > uint32(high) {
		return 0, fmt.Errorf("not a ZooKeeper server: a frame of %d bytes instead of %d to %d", length, low, high)
	}
	return lengthBytes + int(length), nil
}

// Read implements net.Conn. Read never reads beyond the end of a frame.
func (w *wire) Read(p []byte) (n int, err error) {
	if w.left == 0 {
		if w.left, err = w.frame(minFrame, maxFrame); err == nil {
			err = w.note()
		}
	}
	if err == nil {
		n, err = w.in.Read(p[:min(len(p), w.left)])
		w.left -= n
	}
	if err != nil {
		w.end(err)
	}
	return n, err
}

// SetReadDeadline implements net.Conn.
func (w *wire) SetReadDeadline(time.Time) error { return nil }

// errIdentity is why a connection ends behind the answer that its identity is refused. The server closes it.
var errIdentity = fmt.Errorf("%w: the server refuses the user's identity", store.ErrDenied)

// note reads the header of the next frame. It notes the zxid of the answer to a request: these have positive xids, and some have
// 0 or -1 for a zxid. The error of an identity is noted here, before the end of the connection can be.
func (w *wire) note() error {
	header, err := w.in.Peek(lengthBytes + minFrame)
	if err != nil {
		return err
	}
	header = header[lengthBytes:]
	xid, zxid := int32(binary.BigEndian.Uint32(header)), int64(binary.BigEndian.Uint64(header[4:]))
	if xid > 0 && zxid > 0 {
		w.first.CompareAndSwap(0, zxid)
		w.last.Store(max(w.last.Load(), zxid))
	}
	if code := int32(binary.BigEndian.Uint32(header[12:])); code == -115 { // of zk.ErrAuthFailed
		return errIdentity
	}
	return nil
}

// Write implements net.Conn. Write never fails: a connection that can't be written is closed, which fails the reads.
func (w *wire) Write(p []byte) (int, error) {
	if !w.greeted {
		w.greeted = true
		return len(p), nil
	}
	if _, err := w.Conn.Write(p); err != nil {
		w.end(err)
	}
	return len(p), nil
}

var errLeft = errors.New("the connection was given up")

// Close implements net.Conn. The library closes the connection when it has ended the session, or has lost the connection.
func (w *wire) Close() error {
	w.end(errLeft)
	return nil
}

// end closes the connection. The first reason counts.
func (w *wire) end(why error) {
	w.cancel(plain(why))
	_ = w.Conn.Close()
}

// why returns why the connection has ended; nil while it lasts.
func (w *wire) why() error { return context.Cause(w.ctx) }

// plain says in plain words why a connection was lost.
func plain(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the server does not answer")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return errors.New("the server closed the connection")
	}
	return err
}

package zookeeper_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/conformance"
)

// mended is a connection for the client library's own watches, which the library sets again after a reconnection. It
// works round two faults of the library. The library reads and writes the last zxid without a lock, a data race: mended
// shows it no zxid, and corrects the zxid that the library sends to the server. The library also answers a request
// twice if writing it fails, and then waits for ever if the caller has left: so a write never fails here. Instead the
// connection is closed, and the reads fail.
type mended struct {
	net.Conn
	last   *atomic.Uint64 // the highest zxid seen on all connections
	before uint64         // the highest zxid seen before this connection
	wrote  bool           // the connect request, as read has been its answer
	read   bool
	rest   []byte // of the frame that is being read
}

// mend returns a dialer for the library.
func mend(dial conformance.DialFunc) func(network, address string, timeout time.Duration) (net.Conn, error) {
	last := new(atomic.Uint64)
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &mended{Conn: conn, last: last}, nil
	}
}

func (m *mended) Write(p []byte) (int, error) {
	const connectZxid, opcode, setWatches, setWatchesZxid = 8, 8, 101, 12
	at := 0
	switch {
	case !m.wrote:
		m.wrote, m.before, at = true, m.last.Load(), connectZxid
	case binary.BigEndian.Uint32(p[opcode:]) == setWatches:
		at = setWatchesZxid
	}
	if at > 0 {
		p = bytes.Clone(p)
		binary.BigEndian.PutUint64(p[at:], m.before)
	}
	if _, err := m.Conn.Write(p); err != nil {
		_ = m.Close()
	}
	return len(p), nil
}

func (m *mended) Read(p []byte) (int, error) {
	const zxid = 8
	if len(m.rest) == 0 {
		frame, err := readFrame(m.Conn)
		if err != nil {
			return 0, err
		}
		if m.read {
			if seen := binary.BigEndian.Uint64(frame[zxid:]); int64(seen) > 0 { // an event has -1
				m.last.Store(max(m.last.Load(), seen))
			}
			clear(frame[zxid:][:8])
		}
		m.read, m.rest = true, frame
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

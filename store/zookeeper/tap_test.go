package zookeeper_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/stretchr/testify/require"
)

// The requests of ZooKeeper's protocol that the tests care about.
const (
	opCreate     = 1
	opDelete     = 2
	opExists     = 3
	opGetData    = 4
	opSync       = 9
	opList       = 12
	opMulti      = 14
	opSetAuth    = 100
	opSetWatches = 101
)

// tap is on the line between a store and its servers and understands the protocol, so that a test can meet a single
// request or reply where conformance.Network meets all of them. Its Dial is for Config.Dial.
type tap struct {
	dial conformance.DialFunc

	mu       sync.Mutex
	catches  []*catch // guarded by mu, as are all below; the pending ones
	sent     []packet
	id       []byte // session and password of the last handshake
	password []byte
	conns    []*tapped
	granted  time.Duration // what handshakes say from now on; 0 for what the server says
	deaf     bool          // events don't arrive
	held     sync.WaitGroup
}

// packet is a request.
type packet struct {
	xid, op int32
	body    []byte
}

// catch waits for one request.
type catch struct {
	op      int32
	text    string // is in the request: a node's name
	fate    fate
	caught  chan struct{} // closed when the request has been sent
	arrived chan struct{} // closed when its reply has come, where the fate concerns that
	release chan struct{} // closed by the test to let a held one go
	once    sync.Once
}

func (c *catch) letGo() { c.once.Do(func() { close(c.release) }) }

// fate is what becomes of a request that is caught.
type fate int

const (
	loseReply   fate = iota // it is carried out; its connection breaks before the reply arrives
	loseRequest             // the connection breaks before it is sent
	hold                    // it is sent when the test lets it go; later ones overtake it
	holdReply               // it is carried out; its reply, and all behind, come when the test lets them go
	failWrite               // sending it fails with an error
)

func newTap(t *testing.T, dial conformance.DialFunc) *tap {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	tp := &tap{dial: dial}
	t.Cleanup(func() { // runs after the store's Close, which ends the connections
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.held.Wait()
	})
	return tp
}

// catch waits for the next request of the kind that mentions the text.
func (tp *tap) catch(t *testing.T, op int32, text string, fate fate) *catch {
	c := &catch{
		op: op, text: text, fate: fate,
		caught: make(chan struct{}), arrived: make(chan struct{}), release: make(chan struct{}),
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.catches = append(tp.catches, c)
	t.Cleanup(c.letGo)
	return c
}

// count counts the requests of the kind that mention the text.
func (tp *tap) count(op int32, text string) int {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	n := 0
	for _, p := range tp.sent {
		if p.op == op && bytes.Contains(p.body, []byte(text)) {
			n++
		}
	}
	return n
}

// lastAddr returns the address of the server dialled last.
func (tp *tap) lastAddr() string {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.conns[len(tp.conns)-1].RemoteAddr().String()
}

// breakOff breaks the present connections off, as a server does that goes away.
func (tp *tap) breakOff() {
	tp.mu.Lock()
	conns := tp.conns
	tp.conns = nil
	tp.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// grant makes later handshakes say that the session's timeout is d.
func (tp *tap) grant(d time.Duration) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.granted = d
}

// loseEvents lets no event arrive from now on: watches are silent.
func (tp *tap) loseEvents() {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.deaf = true
}

func (tp *tap) swallows(body []byte) bool {
	const event = -1
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return tp.deaf && int32(binary.BigEndian.Uint32(body)) == event
}

// endSession ends the store's session, as an operator can who has its id and password, or another client of the same
// session. The store's connection is not touched by that; the server closes it. The store reconnects, whereupon the
// server closes ours, and so on, until the end has been asked for.
func (tp *tap) endSession(t *testing.T, addr string) {
	t.Helper()
	tp.mu.Lock()
	id, password := tp.id, tp.password
	tp.mu.Unlock()
	require.Len(t, id, 8, "the store has a session")
	var connect bytes.Buffer
	for _, field := range []any{
		int32(0), int64(0), int32(ttl.Milliseconds()), id, int32(len(password)), password, false,
	} {
		require.NoError(t, binary.Write(&connect, binary.BigEndian, field))
	}
	ended := func() bool {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		reply, err := exchange(conn, connect.Bytes())
		if err != nil {
			return false
		}
		if binary.BigEndian.Uint64(reply[12:]) == 0 {
			return true // there is no such session
		}
		_, _ = exchange(conn, []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}) // xid 1, close
		return false
	}
	eventually(t, ended, "the end of the session")
}

func exchange(conn net.Conn, request []byte) (reply []byte, err error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	return readFrame(conn)
}

// Dial is a conformance.DialFunc.
func (tp *tap) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := tp.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &tapped{Conn: conn, tap: tp, closed: make(chan struct{}), replies: map[int32]*catch{}}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.conns = append(tp.conns, c)
	return c, nil
}

// tapped is a connection under a tap. The client library writes one request at a time.
type tapped struct {
	net.Conn
	tap    *tap
	once   sync.Once
	closed chan struct{}

	mu        sync.Mutex
	connected bool             // guarded by mu, as is replies: the handshake has been sent
	replies   map[int32]*catch // whose replies are awaited

	greeted bool   // of the reader alone, as is rest: the handshake has been answered
	rest    []byte // of the frame that is being read
}

func (c *tapped) Write(p []byte) (int, error) {
	caught := c.match(p)
	if caught == nil {
		return c.Conn.Write(p)
	}
	switch caught.fate {
	case loseRequest:
		close(caught.caught)
		_ = c.Close()
		return len(p), nil
	case failWrite:
		close(caught.caught)
		return 0, io.ErrClosedPipe
	case hold:
		p := bytes.Clone(p)
		c.tap.held.Go(func() {
			select {
			case <-caught.release:
				_, _ = c.Conn.Write(p)
			case <-c.closed:
			}
		})
		close(caught.caught)
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	close(caught.caught)
	return n, err
}

// match returns the catch for a request, if there is one.
func (c *tapped) match(frame []byte) *catch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.connected {
		c.connected = true
		return nil
	}
	p := packet{
		int32(binary.BigEndian.Uint32(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:])), bytes.Clone(frame[12:]),
	}
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	c.tap.sent = append(c.tap.sent, p)
	for i, caught := range c.tap.catches {
		if caught.op != p.op || !bytes.Contains(p.body, []byte(caught.text)) {
			continue
		}
		c.tap.catches = append(c.tap.catches[:i:i], c.tap.catches[i+1:]...)
		if caught.fate == loseReply || caught.fate == holdReply {
			c.replies[p.xid] = caught
		}
		return caught
	}
	return nil
}

func (c *tapped) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		frame, err := readFrame(c.Conn)
		if err != nil {
			return 0, err
		}
		if !c.admit(frame[4:]) {
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		if !c.tap.swallows(frame[4:]) {
			c.rest = frame
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// admit decides about a reply, and waits where it is held.
func (c *tapped) admit(body []byte) bool {
	if !c.greeted {
		c.greeted = true
		const timeout, session, password = 4, 8, 20 // the password has its length before it
		c.tap.mu.Lock()
		defer c.tap.mu.Unlock()
		if c.tap.granted != 0 {
			binary.BigEndian.PutUint32(body[timeout:], uint32(c.tap.granted.Milliseconds()))
		}
		c.tap.id, c.tap.password = bytes.Clone(body[session:][:8]), bytes.Clone(body[password:][:16])
		return true
	}
	xid := int32(binary.BigEndian.Uint32(body))
	c.mu.Lock()
	caught := c.replies[xid]
	delete(c.replies, xid)
	c.mu.Unlock()
	if caught == nil {
		return true
	}
	close(caught.arrived)
	if caught.fate == holdReply {
		select {
		case <-caught.release:
			return true
		case <-c.closed:
		}
	}
	return false
}

func (c *tapped) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// readFrame reads a reply with its length.
func readFrame(r io.Reader) ([]byte, error) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	frame := append(header, make([]byte, binary.BigEndian.Uint32(header))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

package zookeeper_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
)

// The requests of ZooKeeper's protocol that the tests use, as their text begins.
const (
	opCreate     = "op 1:"
	opDelete     = "op 2:"
	opExists     = "op 3:"
	opGetData    = "op 4:"
	opList       = "op 12:"
	opMulti      = "op 14:"
	opSetWatches = "op 101:"

	// theRoot is in the transaction by which a session is confirmed: a path and any version.
	theRoot = "\x00\x00\x00\x01/\xff\xff\xff\xff"
)

// tap is on the line between a store and its servers and understands the protocol, so that a test can affect a single
// request or reply; conformance.Network affects all of them. Its Dial is for Config.Dial.
type tap struct {
	storetest.Requests[catch] // "op 1:" with what follows in the request

	dial conformance.DialFunc

	mu    sync.Mutex
	conns []*tapped // guarded by mu, as are all below
	deaf  bool      // events don't arrive
	held  sync.WaitGroup
}

// catch waits for one request.
type catch struct {
	fate    fate
	request string        // may be read when it has been caught
	caught  chan struct{} // closed when the request has been sent
	arrived chan struct{} // closed when its reply has come, if the fate concerns that
	release chan struct{} // closed by the test to let a held one go
	once    sync.Once
}

func (c *catch) letGo() { c.once.Do(func() { close(c.release) }) }

// fate is what happens to a request that is caught.
type fate int

const (
	loseReply   fate = iota // it is carried out; its connection breaks before the reply arrives
	loseRequest             // the connection breaks before it is sent
	hold                    // it is sent when the test lets it go; later ones overtake it
	holdReply               // it is carried out; its reply, and all behind, come when the test lets them go
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

// catch waits for the next request that contains all of the texts: its kind, a node's name, ...
func (tp *tap) catch(t *testing.T, fate fate, text ...string) *catch {
	c := &catch{
		fate: fate, caught: make(chan struct{}), arrived: make(chan struct{}), release: make(chan struct{}),
	}
	tp.Await(c, text...)
	t.Cleanup(c.letGo)
	return c
}

// breakOff breaks the present connections, as a server does that shuts down.
func (tp *tap) breakOff() {
	tp.mu.Lock()
	conns := tp.conns
	tp.conns = nil
	tp.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// loseEvents drops all events from now on: watches are silent.
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

// Dial is a conformance.DialFunc.
func (tp *tap) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := tp.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &tapped{
		Conn: conn, tap: tp, closed: make(chan struct{}), replies: map[int32]*catch{},
	}
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
	xid, op, body := int32(binary.BigEndian.Uint32(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:])), frame[12:]
	request := fmt.Sprintf("op %d:%s", op, body)
	caught := c.tap.Note(request)
	if caught == nil {
		return nil
	}
	caught.request = request
	if caught.fate == loseReply || caught.fate == holdReply {
		c.replies[xid] = caught
	}
	return caught
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

// admit decides about a reply, and waits if the reply is held.
func (c *tapped) admit(body []byte) bool {
	if !c.greeted {
		c.greeted = true
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

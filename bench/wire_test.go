package bench

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// wire counts what passes over the connections of one session. What the messages are is read by a conversation.
type wire struct {
	talk func(*metered) conversation

	mu      sync.Mutex
	sent    int       // guarded by mu, as are all below: requests
	events  int       // notifications of changes
	carried int       // bytes, in both directions
	pending int       // requests that should be answered at once, and have not been
	last    time.Time // when something was sent or received
	deepest int       // see rounds
}

// conversation reads what passes over one connection, in pieces of any size, and tells what it means by the methods of
// metered. It is called by one goroutine at a time.
type conversation interface {
	sent(p []byte)
	received(p []byte)
}

// requests returns how many requests have been sent so far.
func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// notifications returns how many changes have been told so far.
func (w *wire) notifications() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// bytes returns how many bytes have passed so far, in both directions.
func (w *wire) bytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.carried
}

// resetRounds begins to count round trips anew. Nothing may be under way.
func (w *wire) resetRounds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deepest = 0
}

// rounds returns how many round trips have followed one another since resetRounds: requests that are sent before the
// answer of an earlier one has come count as one with it.
func (w *wire) rounds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deepest
}

// quiet reports whether nothing is under way and nothing has passed since then.
func (w *wire) quiet(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending == 0 && w.last.Before(since)
}

// wires are those of several sessions.
type wires []*wire

func (s *service) newWire() *wire { return &wire{talk: s.talk} }

func (s *service) newWires(n int) wires {
	list := make(wires, n)
	for i := range list {
		list[i] = s.newWire()
	}
	return list
}

// rest is for how long nothing must pass for all that was going on to be over.
const rest = 2 * time.Millisecond

// settle waits until nothing is under way, for some time in any case: what is measured next starts from rest, and
// from the same rest whatever was done before.
func (list wires) settle(b *testing.B) {
	b.Helper()
	began := time.Now()
	poll(b, "the connections to be at rest", func() bool {
		since := time.Now().Add(-rest)
		return since.After(began) && !slices.ContainsFunc(list, func(w *wire) bool { return !w.quiet(since) })
	})
}

// sum adds up what all have counted.
func (list wires) sum(count func(*wire) int) int {
	n := 0
	for _, w := range list {
		n += count(w)
	}
	return n
}

// poll waits until the condition holds.
func poll(b *testing.B, what string, holds func() bool) {
	b.Helper()
	for end := time.Now().Add(watchdog); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			b.Fatalf("waited %v for %s", watchdog, what)
		}
	}
}

// dialFunc opens a connection.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial opens a connection that counts.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	m := &metered{Conn: conn, wire: w, pending: map[uint64]int{}}
	m.talk = w.talk(m)
	return m, nil
}

// metered is a connection whose messages are counted. Its conversation and all below are guarded by the wire's mu.
type metered struct {
	net.Conn
	wire    *wire
	talk    conversation
	pending map[uint64]int // the rounds of requests that are under way, by number
}

// Write implements net.Conn.
func (m *metered) Write(p []byte) (int, error) {
	m.wire.mu.Lock()
	m.talk.sent(p)
	m.wire.carried += len(p)
	m.wire.mu.Unlock()
	return m.Conn.Write(p)
}

// Read implements net.Conn.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.wire.mu.Lock()
	m.talk.received(p[:n])
	m.wire.carried += n
	m.wire.mu.Unlock()
	return n, err
}

// Close implements net.Conn. What is under way is not going to be answered.
func (m *metered) Close() error {
	m.wire.mu.Lock()
	m.wire.pending -= len(m.pending)
	clear(m.pending)
	m.wire.mu.Unlock()
	return m.Conn.Close()
}

// asked notes a request which is answered at once, under a number that tells it from others under way.
func (m *metered) asked(number uint64) {
	m.noted()
	m.pending[number] = m.wire.deepest + 1
	m.wire.pending++
}

// answered notes the answer.
func (m *metered) answered(number uint64) {
	w := m.wire
	w.last = time.Now()
	if round, ok := m.pending[number]; ok { // not closed meanwhile
		delete(m.pending, number)
		w.pending--
		w.deepest = max(w.deepest, round)
	}
}

// noted notes a request whose answer is not awaited: a sign of life, or one that is answered by a change.
func (m *metered) noted() {
	m.wire.sent++
	m.wire.last = time.Now()
}

// notified notes that a change was told.
func (m *metered) notified() {
	m.wire.events++
	m.wire.last = time.Now()
}
